"""What brokers do not let a user of the cluster do, as he sees it: who, which right, on what."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from pyromq.audit.verify import entries
from tests.access.matrix import SECRET, SUPER
from tests.client.world import World
from tests.dashboard.running import CLUSTER, Dashboard
from tests.dashboard.test_guard import OWN
from tests.dashboard.test_users import ALICE, SECRETS, SECURED, form_token, log_in, make_users


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, **SECURED)
    await world.start_name_server()
    await world.start_broker()
    make_users(world)
    yield world
    await world.close()


async def _create(client: httpx.AsyncClient, name: str) -> httpx.Response:
    """Make a topic by the pages, and return the one of the result."""
    token = await form_token(client)
    plan = await client.post(f"/c/{CLUSTER}/create/topic", data={"form_token": token, "name": name}, headers=OWN)
    assert plan.status_code == 200, plan.text
    key = plan.text.partition('name="plan" value="')[2].partition('"')[0]
    form = {"form_token": token, "plan": key}
    return await client.post(f"/c/{CLUSTER}/create/topic/apply", data=form, headers=OWN, follow_redirects=True)


async def test_a_refusal_names_user_right_and_resource(world: World, dashboard: Dashboard, tmp_path: Path) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, ALICE, SECRETS)  # who may see everything, and change nothing
        page = html.unescape((await _create(client, "mine")).text)
        assert "The user alice lacks the right Create on Topic:mine." in page
        assert "not done" in page
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, SUPER, SECRET)
        assert "not done" not in (await _create(client, "mine")).text
    lines = [one for one in entries(tmp_path / "dashboard" / "audit") if one["kind"] == "write"]
    assert [(one["user"], one["outcome"], one["done"]) for one in lines] == [
        (ALICE, "failed", []),
        (SUPER, "done", ["broker-a"]),
    ]
    assert "alice has no permission" in lines[0]["faults"]["broker-a"]
    assert SECRETS not in str(lines)
    async with dashboard.program() as program:  # the dashboard itself has no keys here
        answer = await program.post(f"/api/v1/{CLUSTER}/topics/mine/delete:plan", json={})
        assert answer.status_code == 403
        assert answer.json()["code"] == 16
