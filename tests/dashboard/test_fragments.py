"""Fresh parts of pages and answers of the API: made once for everybody, sent only if they are others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from pyromq.dashboard.web.answers.fragments import FRESH_S, Fragments
from tests.client.world import World
from tests.dashboard.running import CLUSTER, Dashboard, running_dashboard
from tests.dashboard.test_api import fill
from tests.dashboard.test_guard import log_in

PART = {"x-fragment": "1"}


async def test_fifty_tabs_cost_as_much_as_one() -> None:
    now, made, go = [0.0], list[int](), asyncio.Event()
    fragments = Fragments(lambda: now[0])

    async def make() -> str:
        made.append(len(made))
        await go.wait()
        return f"fragment {made[-1]}"

    tabs = [asyncio.ensure_future(fragments.text("topics", 1, make)) for _ in range(50)]
    await asyncio.sleep(0)
    tabs[0].cancel()  # one browser goes: the others still get it
    go.set()
    texts = await asyncio.gather(*tabs, return_exceptions=True)
    assert (set(texts[1:]), len(made)) == ({"fragment 0"}, 1)
    assert await fragments.text("topics", 1, make) == "fragment 0"
    assert await fragments.text("topics", 2, make) == "fragment 1"  # another snapshot
    assert await fragments.text("groups", 2, make) == "fragment 2"
    now[0] = FRESH_S
    assert await fragments.text("topics", 2, make) == "fragment 3"


async def test_what_could_not_be_made_is_tried_again() -> None:
    fragments, tries = Fragments(lambda: 0.0), list[int]()

    async def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no broker answers")
        return "fine"

    with pytest.raises(ValueError, match="no broker"):
        await fragments.text("topic", 1, make)
    assert await fragments.text("topic", 1, make) == "fine"


async def test_a_page_gets_its_parts_alone_and_only_if_they_are_others(world: World, tmp_path: Path) -> None:
    await fill(world)
    async with (
        running_dashboard(world, tmp_path, every_s=3600) as dashboard,
        httpx.AsyncClient(base_url=dashboard.address) as client,
    ):
        await log_in(client, dashboard)
        whole = await client.get(f"/c/{CLUSTER}/topics")
        part = await client.get(f"/c/{CLUSTER}/topics", headers=PART)
        assert 'id="rows"' in part.text
        assert 'id="seen"' in part.text
        assert "<html" not in part.text
        token = whole.text.partition('name="form_token" value="')[2].partition('"')[0]
        assert (len(token) > 0, token in part.text, token in (await client.get("/api")).text) == (True, False, True)
        chinese = await client.get(f"/c/{CLUSTER}/topics", headers=PART | {"accept-language": "zh"})
        assert ("主题" in chinese.text, "主题" in part.text) == (True, False)
        same = await client.get(f"/c/{CLUSTER}/doctor", headers=PART)
        while (again := await client.get(f"/c/{CLUSTER}/doctor", headers=_having(same))).status_code != 304:
            same = again  # its age has changed meanwhile
        assert again.content == b""
        assert (await client.get(f"/c/{CLUSTER}/topics/nothing", headers=PART)).status_code == 404


def _having(answer: httpx.Response) -> dict[str, str]:
    return PART | {"if-none-match": answer.headers["etag"]}


async def test_the_api_says_when_nothing_has_changed(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/groups", lambda found: found["rows"])
    async with dashboard.program() as program:
        for path in ("", "/topics", "/groups", "/brokers", "/doctor"):
            seen = set()
            while True:  # a new snapshot comes ten times a second
                tag = (await program.get(f"/api/v1/{CLUSTER}{path}")).headers["etag"]
                seen.add(tag)
                answer = await program.get(f"/api/v1/{CLUSTER}{path}", headers={"if-none-match": tag})
                if answer.status_code == 304 and len(seen) > 1:
                    break
            assert answer.content == b""
        assert "etag" not in (await program.get(f"/api/v1/{CLUSTER}/topics/orders")).headers  # asked live


async def test_a_list_has_only_the_columns_that_are_wanted(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/topics", lambda found: found["rows"])
    assert (await dashboard.figures("/topics", fields="name, queues"))["rows"] == [{"name": "orders", "queues": 4}]
    async with dashboard.program() as program:
        wrong = await program.get(f"/api/v1/{CLUSTER}/topics", params={"fields": "quues"})
        assert (wrong.status_code, "Closest: 'queues'" in wrong.json()["detail"]) == (400, True)
