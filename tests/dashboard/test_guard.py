"""What somebody else's page, host name or token gets: nothing."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from pyromq.client.config import ClientConfig
from pyromq.dashboard.server import DashboardConfig
from pyromq.dashboard.web.answers.login import own_path
from pyromq.dashboard.web.sessions import IDLE_S, LONGEST_S, Sessions
from pyromq.errors import ConfigError
from pyromq.testing.clock import ManualClock
from tests.client.world import World
from tests.dashboard.running import Dashboard, running_dashboard

OWN = {"sec-fetch-site": "same-origin"}


async def log_in(client: httpx.AsyncClient, dashboard: Dashboard) -> httpx.Response:
    return await client.post("/login", data={"token": dashboard.tokens[-1], "next": "/api"}, headers=OWN)


async def test_a_token_logs_in_once_and_the_session_ends_with_it(dashboard: Dashboard) -> None:
    token = dashboard.tokens[-1]
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        assert (await client.get("/c/local")).headers["location"] == "/login?next=/c/local"
        done = await log_in(client, dashboard)
        assert (done.status_code, done.headers["location"]) == (303, "/api")
        cookie = done.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        page = await client.get("/api")
        assert page.status_code == 200
        assert len(dashboard.tokens) == 2
        again = await client.post("/login", data={"token": token}, headers=OWN)
        assert (again.status_code, "was used already" in again.text) == (403, True)
        form_token = page.text.partition('name="form_token" value="')[2].partition('"')[0]
        out = await client.post("/logout", data={"form_token": form_token}, headers=OWN)
        assert out.status_code == 303
        assert (await client.get("/api")).status_code == 303


async def test_forms_of_other_pages_are_refused(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        strangers: list[dict[str, str]] = [
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "http://127.0.0.1:1"},
            {"origin": "null"},
            {},
        ]
        for headers in strangers:
            answer = await client.post("/c/local/doctor/again", data={"form_token": "x"}, headers=headers)
            assert answer.status_code == 403, headers
        for data in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
            assert (await client.post("/preferences", data=data, headers=OWN)).status_code == 403
        binary = await client.post("/preferences", content=b"{}", headers=OWN | {"content-type": "application/json"})
        assert binary.status_code == 403
        huge = await client.post("/preferences", data={"form_token": "x" * (1 << 17)}, headers=OWN)
        assert huge.status_code == 403


async def test_names_of_others_that_lead_here_are_not_served(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8082", "", "[::2]"):
            assert (await client.get("/login", headers={"host": host})).status_code == 421, host
        assert (await client.get("/login", headers={"host": "LOCALHOST:9"})).status_code == 200


async def test_every_answer_has_the_strict_headers(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        for path in ("/login", "/static/app.js", "/static/nothing", "/api/v1/clusters", "/c/local"):
            headers = (await client.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'"), path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers


@pytest.mark.parametrize("base", ["", "/mq"])
@pytest.mark.parametrize(
    "goal", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "", "/a\nb", "/mq/../\r"]
)
def test_a_login_leads_to_our_own_pages_alone(goal: str, base: str) -> None:
    assert own_path(goal, base) == f"{base}/"
    assert own_path(f"{base}/c/local/topics?q=a", base) == f"{base}/c/local/topics?q=a"


async def test_the_sixth_try_of_a_minute_waits(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        tries = [(await client.post("/login", data={"token": "no"}, headers=OWN)).status_code for _ in range(6)]
        assert tries == [403] * 5 + [429]
        assert (await log_in(client, dashboard)).status_code == 429


async def test_below_a_path_of_its_own(world: World, tmp_path: Path) -> None:
    async with (
        running_dashboard(world, tmp_path, base="/mq", hosts=["mq.example"]) as dashboard,
        httpx.AsyncClient(base_url=dashboard.address.removesuffix("/mq")) as client,
    ):
        away = await client.get("/mq/c/local", headers={"host": "mq.example"})
        assert away.headers["location"] == "/mq/login?next=/mq/c/local"
        done = await client.post("/mq/login", data={"token": dashboard.tokens[-1]}, headers=OWN)
        assert (done.headers["location"], "Path=/mq" in done.headers["set-cookie"]) == ("/mq/", True)
        assert 'href="/mq/static/app.css"' in (await client.get("/mq/c/local")).text


def test_sessions_end_by_age_and_by_idleness() -> None:
    clock, words = ManualClock(), iter(range(100))
    tokens: list[str] = []
    now = [clock.monotonic()]
    sessions = Sessions(lambda: f"word-{next(words)}", lambda: now[0], tokens.append)
    sessions.offer()
    idle, busy = sessions.login(tokens[-1]), sessions.login(tokens[-1])
    assert idle is not None
    assert busy is not None
    steps = int(LONGEST_S / IDLE_S * 2) + 2
    alive = []
    for _ in range(steps):
        now[0] += IDLE_S / 2
        alive.append(sessions.find(busy) is not None)
    assert alive == sorted(alive, reverse=True)
    assert alive.count(True) == int(LONGEST_S / IDLE_S * 2)
    assert sessions.find(idle) is None


def test_an_address_for_all_takes_a_word_of_yours(tmp_path: Path) -> None:
    reach = {"local": ClientConfig(name_servers=("127.0.0.1:9876",))}
    with pytest.raises(ConfigError, match="--insecure"):
        DashboardConfig(clusters=reach, host="0.0.0.0", state_dir=tmp_path)
    with pytest.raises(ConfigError, match="begins with a slash"):
        DashboardConfig(clusters=reach, base="mq/", state_dir=tmp_path)
    DashboardConfig(clusters=reach, host="0.0.0.0", insecure=True, state_dir=tmp_path)
    with pytest.raises(ConfigError, match="--state-dir"):
        DashboardConfig(clusters=reach)
