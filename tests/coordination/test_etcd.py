"""etcd behind the seam: Debian's etcd-server, one member and three, with its members killed and paused."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.coordination.etcd import EtcdCoordination
from pyromq.coordination.etcd_settings import EtcdSettings
from pyromq.coordination.store import ABSENT, CoordinationRefused, CoordinationUnreachable, Put, Snapshot, Verdict
from pyromq.transport.tls import ClientTls
from tests.coordination.contract import SCENARIOS, Members, Scenario
from tests.coordination.etcd_peer import EtcdCluster, EtcdMember, require_etcd
from tests.transport.certificates import Authority

pytestmark = pytest.mark.interop

CLOCK = SystemClock()
PREFIXES = (f"/pyromq/t{number}/" for number in itertools.count())


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    require_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    require_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd"), size=3) as cluster:
        yield cluster


@pytest.fixture
async def coordination(three: EtcdCluster) -> AsyncIterator[EtcdCoordination]:
    """Of all three members, which are up."""
    for member in three.members:
        if member.program is None:
            member.start()
    async with EtcdCoordination(EtcdSettings(endpoints=three.endpoints), CLOCK) as made:
        await readable(made)
        yield made


async def readable(store: EtcdCoordination, prefix: str = "/pyromq/") -> Snapshot:
    """Return what a read gives once a majority is there; the faulthandler's limit ends what never does."""
    while True:
        try:
            return await store.read(prefix)
        except CoordinationUnreachable:
            continue


async def changed(store: EtcdCoordination, key: str, value: bytes) -> int:
    """Write a key as the seam is meant to be used: after UNKNOWN a read decides, or the same key is written again."""
    while True:
        found = (await readable(store, key)).keys.get(key)
        if found is not None and found.value == value:
            return found.version
        await store.change({key: ABSENT if found is None else found.version}, [Put(key, value)])


def ask(endpoint: str, path: str, body: dict[str, Any], token: str = "") -> Any:
    """Ask etcd by another client than ours."""
    headers = {"Authorization": token} if token else {}
    request = urllib.request.Request(endpoint + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def leader_of(cluster: EtcdCluster) -> EtcdMember:
    for member in cluster.members:
        status = ask(member.endpoint, "/v3/maintenance/status", {})
        if status["leader"] == status["header"]["member_id"]:
            return member
    raise AssertionError("no member of etcd leads")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_contract_with_one_member(one: EtcdCluster, scenario: Scenario) -> None:
    settings = EtcdSettings(endpoints=one.endpoints)
    async with EtcdCoordination(settings, CLOCK) as first, EtcdCoordination(settings, CLOCK) as second:
        await scenario(Members(first, second, next(PREFIXES), CLOCK))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_contract_with_clients_of_different_members(three: EtcdCluster, scenario: Scenario) -> None:
    ends = three.endpoints
    async with (
        EtcdCoordination(EtcdSettings(endpoints=ends[:1]), CLOCK) as first,
        EtcdCoordination(EtcdSettings(endpoints=ends[1:2]), CLOCK) as second,
    ):
        await scenario(Members(first, second, next(PREFIXES), CLOCK))


async def test_check_says_the_version(coordination: EtcdCoordination) -> None:
    assert (await coordination.check()).startswith("3.")


async def test_a_member_that_refuses_connections_is_passed_over(three: EtcdCluster, one: EtcdCluster) -> None:
    prefix = next(PREFIXES)
    settings = EtcdSettings(endpoints=("http://127.0.0.1:1", *three.endpoints))
    async with EtcdCoordination(settings, CLOCK) as store:
        assert (await store.change({prefix: ABSENT}, [Put(prefix, b"1")])).verdict is Verdict.DONE
        assert (await store.read(prefix)).keys[prefix].value == b"1"


async def test_a_leader_that_is_killed_loses_nothing(three: EtcdCluster, coordination: EtcdCoordination) -> None:
    prefix = next(PREFIXES)
    await changed(coordination, prefix + "a", b"before")
    lease = await coordination.hold(5)
    await coordination.change({}, [Put(prefix + "held", b"1", lease)])
    leader_of(three).kill()
    version = await changed(coordination, prefix + "b", b"after")
    found = await readable(coordination, prefix)
    assert {key: value.value for key, value in found.keys.items()} == {
        prefix + "a": b"before",
        prefix + "b": b"after",
        prefix + "held": b"1",
    }
    assert found.keys[prefix + "b"].version == version
    assert await lease.renew()


async def test_without_a_quorum_nothing_is_read_and_changes_are_unknown(
    three: EtcdCluster, coordination: EtcdCoordination
) -> None:
    prefix = next(PREFIXES)
    revision = await changed(coordination, prefix + "a", b"1")
    watch = coordination.watch(prefix, revision)
    paused = three.members[:2]
    for member in paused:
        member.pause()
    try:
        with pytest.raises(CoordinationUnreachable, match="no member of etcd answered"):
            await coordination.read(prefix)
        assert (await coordination.change({}, [Put(prefix + "b", b"1")])).verdict is Verdict.UNKNOWN
        with pytest.raises(CoordinationUnreachable):
            await coordination.hold(3)
    finally:
        for member in paused:
            member.resume()
    await changed(coordination, prefix + "b", b"2")
    while (await readable(coordination, prefix)).keys[prefix + "b"].value != b"2":
        await anext(watch)
    assert await anext(watch) > revision


async def test_a_watch_outlives_the_restart_of_every_member(three: EtcdCluster, coordination: EtcdCoordination) -> None:
    prefix = next(PREFIXES)
    revision = (await coordination.read(prefix)).revision
    seen: asyncio.Queue[int] = asyncio.Queue()

    async def follow() -> None:
        async with aclosing(coordination.watch(prefix, revision)) as watch:
            async for each in watch:
                seen.put_nowait(each)

    following = asyncio.create_task(follow())
    for turn, member in enumerate(three.members):
        member.kill()
        written = await changed(coordination, prefix + "a", b"%d" % turn)
        while await seen.get() < written:
            pass
        member.start()
        member.wait_ready()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


async def test_a_watch_from_a_time_that_etcd_has_forgotten_skips_ahead(one: EtcdCluster) -> None:
    prefix = next(PREFIXES)
    async with EtcdCoordination(EtcdSettings(endpoints=one.endpoints), CLOCK) as store:
        first = await changed(store, prefix + "a", b"1")
        await changed(store, prefix + "a", b"2")
        last = await changed(store, prefix + "a", b"3")
        ask(one.endpoints[0], "/v3/kv/compaction", {"revision": str(last), "physical": True})
        watch = store.watch(prefix, first)
        assert await anext(watch) >= last
        later = await changed(store, prefix + "a", b"4")
        assert await anext(watch) >= later


async def test_a_gateway_that_is_switched_off_is_named(tmp_path: Path) -> None:
    require_etcd()
    with EtcdCluster(tmp_path, options=("--enable-grpc-gateway=false",)) as cluster:
        async with EtcdCoordination(EtcdSettings(endpoints=cluster.endpoints), CLOCK) as store:
            with pytest.raises(CoordinationRefused, match="--enable-grpc-gateway=true"):
                await store.check()


async def test_users_and_their_passwords(tmp_path: Path) -> None:
    require_etcd()
    with EtcdCluster(tmp_path) as cluster:
        (end,) = cluster.endpoints
        ask(end, "/v3/auth/user/add", {"name": "root", "password": "secret"})
        ask(end, "/v3/auth/user/grant", {"user": "root", "role": "root"})
        ask(end, "/v3/auth/user/add", {"name": "guest", "password": "guest"})
        ask(end, "/v3/auth/enable", {})
        refused = {
            "wrong password": EtcdSettings(endpoints=(end,), user="root", password="wrong"),
            "nobody": EtcdSettings(endpoints=(end,)),
            "not allowed": EtcdSettings(endpoints=(end,), user="guest", password="guest"),
        }
        for who, settings in refused.items():
            async with EtcdCoordination(settings, CLOCK) as store:
                with pytest.raises(CoordinationRefused, match="check the user and the password") as fault:
                    await store.check()
                assert end.removeprefix("http://") in str(fault.value), who
                assert "wrong" not in str(fault.value)
        async with EtcdCoordination(EtcdSettings(endpoints=(end,), user="root", password="secret"), CLOCK) as store:
            await store.check()
            assert (await store.change({"a": ABSENT}, [Put("a", b"1")])).verdict is Verdict.DONE
            cluster.members[0].kill()
            cluster.members[0].start()
            cluster.members[0].wait_ready()  # which has forgotten our token
            assert (await readable(store, "a")).keys["a"].value == b"1"
            assert await anext(store.watch("a", 1)) > 1


async def test_an_expired_certificate_is_refused_with_what_to_do(tmp_path: Path) -> None:
    require_etcd()
    authority = Authority(tmp_path, "ours")
    late = authority.issue("late", until=datetime(2021, 1, 1, tzinfo=UTC))
    options = ["--cert-file", str(late.certificate), "--key-file", str(late.key)]
    with EtcdCluster(tmp_path, options=options, scheme="https") as cluster:
        settings = EtcdSettings(endpoints=cluster.endpoints, tls=ClientTls(ca=authority.file))
        async with EtcdCoordination(settings, CLOCK) as store:
            with pytest.raises(CoordinationUnreachable, match=r"certificate has expired.*Renew etcd's certificate"):
                await store.check()


async def test_tls_and_who_it_is_that_answers(tmp_path: Path) -> None:
    require_etcd()
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    server, client = ours.issue("server"), ours.issue("client")
    options: list[str | Path] = ["--cert-file", server.certificate, "--key-file", server.key]
    options += ["--trusted-ca-file", ours.file, "--client-cert-auth"]
    with EtcdCluster(tmp_path, options=[str(option) for option in options], scheme="https") as cluster:
        good = ClientTls(ca=ours.file, certificate=client.certificate, key=client.key)
        async with EtcdCoordination(EtcdSettings(endpoints=cluster.endpoints, tls=good), CLOCK) as store:
            assert (await store.check()).startswith("3.")
        for bad in (ClientTls(ca=others.file, certificate=client.certificate, key=client.key), ClientTls(ca=ours.file)):
            async with EtcdCoordination(EtcdSettings(endpoints=cluster.endpoints, tls=bad), CLOCK) as store:
                with pytest.raises(CoordinationUnreachable, match=r"(?i)certificate|closed|ended|reset"):
                    await store.check()
