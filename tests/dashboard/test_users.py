"""Users of the cluster at the dashboard: brokers say who gets in and what he sees; tokens and sessions end with him."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of
from pyromq.access.users import User, UserStatus
from pyromq.admin.calls import Calls
from pyromq.admin.replicas import ReadElectedState, SetReport
from pyromq.dashboard import server
from pyromq.dashboard.watch.watched import ClusterWatch
from pyromq.dashboard.watch.watcher import Watcher
from pyromq.dashboard.web.guard import COOKIE
from pyromq.dashboard.web.sessions import IDLE_S, MOST_TOKENS, Sessions
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.transport.tls import ClientCertificates, ClientTls, TlsMode
from tests.access.matrix import ON, SECRET, SUPER
from tests.broker.running import turn
from tests.client.world import World
from tests.dashboard.running import Dashboard, running_dashboard
from tests.dashboard.test_guard import OWN
from tests.transport.certificates import Authority

SECURED = ON | {"inner_client_authentication_credentials": f'{{"accessKey":"inner","secretKey":"{SECRET}"}}'}
ALICE, SECRETS = "alice", "alice's own secret"


def allow(directory: Directory, name: str, *resources: str) -> None:
    entries = [PolicyEntryInfo(resource=one, actions=["Get", "List"], decision="Allow") for one in resources]
    directory.put(name, policies_of(AclInfo(policies=[PolicyInfo(entries=entries)])))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, **SECURED)
    await world.start_name_server()
    await world.start_broker()
    make_users(world)
    yield world
    await world.close()


def make_users(world: World) -> None:
    for directory in directories_of(world):
        directory.create(User(ALICE, (SECRETS,)))
        directory.create(User("shop", (SECRETS,)))
        allow(directory, ALICE, "Cluster:*", "Topic:*", "Group:*")


def directories_of(world: World) -> list[Directory]:
    """Of the broker and the name server, which both judge."""
    (name_server,) = world.name_servers.values()
    return [world.brokers["broker-a"].broker.base.access.table.directory, name_server.access.table.directory]


async def log_in(client: httpx.AsyncClient, user: str, secret: str) -> httpx.Response:
    form = {"user": user, "secret": secret, "next": "/c/local/brokers"}
    return await client.post("/login", data=form, headers=OWN)


async def form_token(client: httpx.AsyncClient) -> str:
    page = (await client.get("/api")).text
    return page.partition('name="form_token" value="')[2].partition('"')[0]


async def topics(client: httpx.AsyncClient, **headers: str) -> Any:
    answer = await client.get("/api/v1/local/topics?system=true", headers=headers)
    return answer.json() if answer.status_code == 200 else answer.status_code


async def test_a_user_sees_what_the_brokers_show_him(
    world: World, dashboard: Dashboard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        done = await log_in(client, ALICE, SECRETS)
        assert (done.status_code, done.headers["location"]) == (303, "/c/local/brokers")
        page = (await client.get("/c/local/brokers")).text
        assert ("broker-a" in page, "Log out alice" in page) == (True, True)
        assert "TBW102" in str(await topics(client))
    async with dashboard.program() as program:  # the dashboard itself has no keys, and sees nothing
        assert "TBW102" not in str(await topics(program))
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        answer = await log_in(client, "shop", SECRETS)  # with a right secret, and without any right
        assert (answer.status_code, "may not see the cluster" in answer.text) == (403, True)
    assert SECRETS not in caplog.text


async def test_a_browser_is_one_user_at_a_time(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, ALICE, SECRETS)
        before = client.cookies[COOKIE]
        assert (await log_in(client, SUPER, SECRET)).status_code == 303
        assert "Log out boss" in (await client.get("/api")).text
    async with httpx.AsyncClient(base_url=dashboard.address, cookies={COOKIE: before}) as client:
        assert (await client.get("/api")).status_code == 303


async def test_wrong_secrets_are_refused_and_counted(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        tries = [(ALICE, "guessed"), ("nobody", SECRETS), (ALICE, ""), ("alice%", SECRETS), (ALICE, SECRETS + " ")]
        answers = [await log_in(client, *each) for each in tries]
        assert [one.status_code for one in answers] == [403] * 5
        assert all("Name or secret is wrong" in one.text for one in answers[:2])
        assert "set-cookie" not in answers[0].headers
        assert SECRETS not in answers[1].text
        assert (await log_in(client, ALICE, SECRETS)).status_code == 429
        assert (await client.get("/c/local")).status_code == 303


async def test_a_token_does_as_its_user_until_he_logs_out(dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, ALICE, SECRETS)
        shown = await client.post("/tokens", data={"form_token": await form_token(client)}, headers=OWN)
        token = shown.text.partition('role="status"')[2].partition('<pre tabindex="0">')[2].partition("</pre>")[0]
        assert len(token) == 64
        assert (await client.post("/tokens", data={"form_token": "x"}, headers=OWN)).status_code == 403
        async with httpx.AsyncClient(base_url=dashboard.address) as program:
            by_token = {"authorization": f"Bearer {token}"}
            assert "TBW102" in str(await topics(program, **by_token))
            assert (await program.post("/tokens", headers=OWN | by_token, data={})).status_code == 403
            await client.post("/logout", data={"form_token": await form_token(client)}, headers=OWN)
            assert await topics(program, **by_token) == 401


@pytest.mark.parametrize("change", ["disabled", "secret", "deleted", "rights"])
async def test_whom_the_cluster_refuses_is_logged_out(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(server, "RECHECK_S", 0.1)
    changes: dict[str, Callable[[Directory], None]] = {
        "disabled": lambda directory: directory.update(ALICE, None, None, UserStatus.DISABLED),
        "secret": lambda directory: directory.update(ALICE, "another secret", None, None),
        "deleted": lambda directory: directory.delete(ALICE),
        "rights": lambda directory: directory.remove(ALICE),
    }
    async with (
        running_dashboard(world, tmp_path) as dashboard,
        httpx.AsyncClient(base_url=dashboard.address) as client,
    ):
        await log_in(client, ALICE, SECRETS)
        assert (await client.get("/api")).status_code == 200
        for directory in directories_of(world):
            changes[change](directory)
        while (await client.get("/api")).status_code == 200:
            await turn()


async def test_one_cluster_that_refuses_ends_the_session(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RECHECK_S", 0.1)
    second = World(tmp_path / "second", **SECURED)
    try:
        await second.start_name_server()
        await second.start_broker()
        make_users(second)
        async with (
            running_dashboard(world, tmp_path, further={"other": second}) as dashboard,
            httpx.AsyncClient(base_url=dashboard.address) as client,
        ):
            await log_in(client, ALICE, SECRETS)
            assert (await client.get("/c/other/brokers")).status_code == 200
            for directory in directories_of(second):
                directory.update(ALICE, None, None, UserStatus.DISABLED)
            while (await client.get("/api")).status_code == 200:
                await turn()
            await log_in(client, ALICE, SECRETS)
            pages = [await client.get(f"/c/{name}/brokers") for name in ("local", "other")]
            assert [page.status_code for page in pages] == [200, 404]
    finally:
        await second.close()


async def test_users_get_nothing_that_the_dashboard_reads_by_rights_of_its_own(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, ReadElectedState | None] = {}

    def noted(name: str, calls: Calls, watcher: Watcher, now_ms: Callable[[], int], read: Any) -> ClusterWatch:
        made[calls.session.config.access_key] = read
        return ClusterWatch(name, calls, watcher, now_ms, read)

    async def read_elected(found: SetReport) -> None:
        pass

    monkeypatch.setattr(server, "ClusterWatch", noted)
    async with (
        running_dashboard(world, tmp_path, read_elected=read_elected) as dashboard,
        httpx.AsyncClient(base_url=dashboard.address) as client,
    ):
        assert (await log_in(client, ALICE, SECRETS)).status_code == 303
        assert made == {"": read_elected, ALICE: None}


async def test_a_cluster_that_asks_nobody_lets_no_user_in(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        await world.start_name_server()
        await world.start_broker()
        async with (
            running_dashboard(world, tmp_path) as dashboard,
            httpx.AsyncClient(base_url=dashboard.address) as client,
        ):
            answer = await log_in(client, SUPER, SECRET)
            assert (answer.status_code, "asks nobody who he is" in answer.text) == (403, True)
            for name in list(world.brokers):
                await world.stop_broker(name)
            answer = await log_in(client, SUPER, SECRET)
            assert answer.status_code == 403
    finally:
        await world.close()


async def test_an_address_that_is_let_in_anyway_logs_nobody_in(tmp_path: Path) -> None:
    names = ("authentication_address_whitelist", "authorization_address_whitelist")
    world = World(tmp_path, **SECURED, **dict.fromkeys(names, "127.0.0.1"))
    try:
        await world.start_name_server()
        await world.start_broker()
        async with (
            running_dashboard(world, tmp_path) as dashboard,
            httpx.AsyncClient(base_url=dashboard.address) as client,
        ):
            assert (await log_in(client, SUPER, "guessed")).status_code == 403
    finally:
        await world.close()


def test_tokens_end_with_their_session() -> None:
    now, words = [0.0], iter(range(100))
    sessions = Sessions(lambda: f"word-{next(words)}", lambda: now[0], lambda token: None)
    word = sessions.begin()
    session = sessions.find(word)
    assert session is not None
    tokens = [sessions.make_token(session) for _ in range(MOST_TOKENS + 1)]
    assert tokens[-1] is None
    first = tokens[0] or ""
    now[0] += IDLE_S - 1
    assert sessions.of_token(first) is session  # which is use
    now[0] += IDLE_S - 1
    assert sessions.find(word) is session
    now[0] += IDLE_S + 1
    assert sessions.of_token(first) is None
    assert sessions.find(word) is None
    assert sessions.find(first) is None


async def test_a_certificate_of_the_dashboard_s_own_is_a_user_and_lets_no_other_in(tmp_path: Path) -> None:
    """`--tls`: its certificate says who the dashboard is where nothing is signed; a user's requests are signed."""
    authority = Authority(tmp_path, "authority")
    pairs = {name: authority.issue(name) for name in ("server", ALICE)}
    server, own = pairs["server"], pairs[ALICE]
    tls = {
        "tls_server_mode": TlsMode.ENFORCING,
        "tls_server_cert_path": server.certificate,
        "tls_server_key_path": server.key,
        "tls_server_need_client_auth": ClientCertificates.REQUIRE,
        "tls_server_trust_cert_path": authority.file,
        "tls_enable": True,
        "tls_client_auth_server": True,
        "tls_client_trust_cert_path": authority.file,
        "tls_client_cert_path": server.certificate,
        "tls_client_key_path": server.key,
    }
    world = World(tmp_path, **SECURED, **tls)
    try:
        await world.start_name_server()
        await world.start_broker()
        make_users(world)
        reach = ClientTls(ca=authority.file, certificate=own.certificate, key=own.key)
        async with (
            running_dashboard(world, tmp_path, reach) as dashboard,
            httpx.AsyncClient(base_url=dashboard.address) as client,
        ):
            await client.post("/login", data={"token": dashboard.tokens[-1]}, headers=OWN)
            assert "TBW102" in str(await topics(client))  # as the certificate's user
            client.cookies.clear()
            assert (await log_in(client, ALICE, "guessed")).status_code == 403
            assert (await log_in(client, SUPER, SECRET)).status_code == 303
            assert "TBW102" in str(await topics(client))
    finally:
        await world.close()
