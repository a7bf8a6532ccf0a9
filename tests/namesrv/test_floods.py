"""What anybody may make a name server keep: refused by a setting's name, or dropped, while others are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.registration import RegistrationFacts
from pyromq.errors import RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.kv_config import KvConfig
from pyromq.namesrv.route_table import RouteTable
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.requests import RequestCode
from tests.namesrv.builders import registration, topics, version
from tests.namesrv.test_kv_config import Disk
from tests.namesrv.world import World, at_once, broker_header, register
from tests.wire import decode_registration

ESCAPE = "\x1b]0;owned\x07"
BAD_ADDRESSES = [
    *("", "nonsense", ":10911", "a:b", "a:99999", "a:" + "9" * 5000, "a:²"),
    *("a b:1", f"a{ESCAPE}:1", "a" * 1_000_000 + ":1"),
]


@pytest.mark.parametrize("address", BAD_ADDRESSES, ids=range(len(BAD_ADDRESSES)))
async def test_a_broker_whose_address_is_none_is_refused(world: World, address: str) -> None:
    talk = await world.talk()
    answer = await register(talk, topics("A", "B"), broker_header(broker_addr=address))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "register broker failed" in (answer.remark or "")
    assert len(answer.remark or "") < 1000
    if address:
        assert (await register(talk, topics("A", "B"), broker_header(ha_server_addr=address))).code != 0
    assert world.namesrv.table.replica_count() == 0


@pytest.mark.parametrize("name", ["", "  ", "x" * 256, f"x{ESCAPE}", "a\nb", "a\0"])
async def test_a_broker_or_cluster_with_a_name_that_nobody_can_use_is_refused(world: World, name: str) -> None:
    talk = await world.talk()
    headers = [broker_header(cluster_name=name), broker_header(name, broker_addr="a:1", ha_server_addr="a:2")]
    for header in headers:
        answer = await register(talk, topics("A", "B"), header)
        assert answer.code == ResponseCode.INVALID_PARAMETER
    assert world.namesrv.table.replica_count() == 0


@pytest.mark.parametrize(
    ("name", "address"),
    [("host.example.com", "10.0.0.1:1"), ("broker-a", "[fe80::1%eth0]:1"), ("b_1", "fe80::1:1"), ("b", "my_host:1")],
)
async def test_names_and_addresses_of_javas_brokers_are_taken(world: World, name: str, address: str) -> None:
    talk = await world.talk()
    header = broker_header(name, broker_addr=address, ha_server_addr="")
    assert (await register(talk, topics("A", "B"), header)).code == ResponseCode.SUCCESS


async def test_topics_with_names_that_nobody_can_use_are_left_out(world: World) -> None:
    talk = await world.talk()
    assert (await register(talk, topics("A", "D", f"B{ESCAPE}", "C" * 300))).code == ResponseCode.SUCCESS
    assert world.namesrv.table.topics() == ["A", "D"]


async def test_a_flood_of_brokers_and_topics_ends_at_a_limit_and_known_ones_live_on(world: World) -> None:
    world.set(maxBrokers=20, maxTopics=50)
    honest, flood = await world.talk(), await world.talk()
    await register(honest, topics("A", "B"), broker_header("honest"))
    answers = [await register(flood, topics(f"x{n}", f"y{n}"), broker_header(f"b{n}")) for n in range(100)]
    refused = [one.remark or "" for one in answers if one.code != ResponseCode.SUCCESS]
    assert len(refused) == 81
    assert all("(maxBrokers) is 20" in one for one in refused)
    answer = await register(flood, topics(*(f"z{n}" for n in range(100))), broker_header("b0"))
    assert answer.remark == "90 new topics are left out, the limit (maxTopics) is 50"
    assert (await register(honest, topics("A", "B"), broker_header("honest"))).code == ResponseCode.SUCCESS
    assert (await honest.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="A")).code == ResponseCode.SUCCESS


async def test_topics_beyond_the_limit_are_left_out_and_the_broker_stays_with_those_it_had(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    talk, table = await world.talk(), world.namesrv.table
    await register(talk, topics("A", "B", "C"))
    world.set(maxTopics=4)
    more = topics("A", "B", "C", *(f"new{n}" for n in range(14)))
    with caplog.at_level("WARNING"):
        for _ in range(10):  # 300 s: a broker that is not heard of for 120 s would be gone
            await world.clock.advance(30)
            answer = await register(talk, more)
            assert answer.code == ResponseCode.SUCCESS
    assert answer.remark == "13 new topics are left out, the limit (maxTopics) is 4"
    assert sorted(table.topics()) == ["A", "B", "C", "new0"]
    assert (await talk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="A")).code == ResponseCode.SUCCESS
    assert (await talk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="new1")).code == ResponseCode.TOPIC_NOT_EXIST
    lines = [one.getMessage() for one in caplog.records if "left_out=13" in one.getMessage()]
    assert lines
    assert all("maxTopics=4" in one and "broker=broker-a" in one for one in lines)
    single = await talk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic="new1", body=b"{}")
    assert "the limit (maxTopics) is 4" in (single.remark or "")
    world.set(maxTopics=100)
    assert (await register(talk, more)).remark is None
    assert table.topic_count() == 17


async def test_a_new_broker_is_taken_though_there_is_room_for_one_or_none_of_its_topics(world: World) -> None:
    talk = await world.talk()
    await register(talk, topics("A", "B"))
    world.set(maxTopics=3)
    for name in ("one-fits", "none-fits"):
        answer = await register(talk, topics(f"{name}-x", f"{name}-y"), broker_header(name))
        assert answer.code == ResponseCode.SUCCESS
    assert world.namesrv.table.replica_count() == 3
    assert world.namesrv.table.topic_count() == 3
    answer = await register(talk, topics("single"), broker_header("unknown"))
    assert "came with the single topic single" in (answer.remark or "")


async def test_a_known_broker_may_come_back_at_another_address_when_no_more_brokers_may_register(world: World) -> None:
    talk = await world.talk()
    await register(talk, topics("A", "B"))
    world.set(maxBrokers=1)
    answer = await register(talk, topics("A", "B"), broker_header(broker_addr="elsewhere:10911"))
    assert answer.code == ResponseCode.SUCCESS
    assert world.namesrv.table.members("broker-a") == {0: "elsewhere:10911"}


# --- KV -------------------------------------------------------------------------------------------------------------

LIMITS = NamesrvConfig(
    max_kv_bytes=1100,
    max_kv_namespaces=3,
    max_kv_entries_per_namespace=5,
    max_kv_key_length=20,
    max_kv_value_length=400,
)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([("ns", f"k{n}", "v" * 300) for n in range(4)], "(maxKvBytes) is 1100"),
        ([*((f"ns{n}" if n else "ns", "k", "v") for n in range(4))], "(maxKvNamespaces) is 3"),
        ([("ns", f"k{n}", "v") for n in range(6)], "(maxKvEntriesPerNamespace) is 5"),
        ([("ns", "k" * 21, "v")], "(maxKvKeyLength) is 20"),
        ([("n" * 21, "k", "v")], "(maxKvKeyLength) is 20"),
        ([("ns", "k", "v" * 401)], "(maxKvValueLength) is 400"),
    ],
)
async def test_a_put_over_a_limit_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, entries: list[tuple[str, str, str]], words: str
) -> None:
    path = tmp_path / "kvConfig.json"
    kv = KvConfig.open(path, at_once, lambda: LIMITS)
    for entry in entries[:-1]:
        await kv.put(*entry)
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(RequestRefused) as caught:
        await kv.put(*entries[-1])
    assert words in str(caught.value)
    assert (path.read_bytes() if path.exists() else b"") == before
    await kv.delete("ns", "k0")
    await kv.put("ns", "k0", "v")


async def test_one_put_that_is_refused_does_not_take_those_of_its_write_with_it(tmp_path: Path) -> None:
    disk = Disk()
    disk.gate.set()
    kv = KvConfig.open(tmp_path / "kvConfig.json", disk.run, lambda: LIMITS)
    results = await asyncio.gather(
        *(kv.put("ns", f"k{number}", "v" * 300) for number in range(20)), return_exceptions=True
    )
    assert [result is None for result in results].count(True) == 3
    assert disk.writes == 1
    assert sorted(kv.namespace("ns") or ()) == ["k0", "k1", "k2"]


async def test_a_file_that_is_larger_than_the_limits_is_served_and_may_shrink(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    large = KvConfig.open(path, at_once)
    await large.put("ns", "big", "v" * 3000)
    kv = KvConfig.open(path, at_once, lambda: LIMITS)
    assert len(kv.get("ns", "big") or "") == 3000
    with pytest.raises(RequestRefused, match="maxKvBytes"):
        await kv.put("ns", "other", "v")
    await kv.put("ns", "big", "small")
    await kv.put("ns", "other", "v")


async def test_a_flood_of_kv_puts_ends_at_a_limit_and_routes_are_answered_meanwhile(world: World) -> None:
    world.set(maxKvBytes=100_000)
    honest, flood = await world.talk(), await world.talk()
    await register(honest, topics("A", "B"))
    refused = 0
    for number in range(300):
        answer = await flood.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key=f"k{number}", value="v" * 1000)
        refused += "(maxKvBytes)" in (answer.remark or "")
        assert (await honest.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="A")).code == ResponseCode.SUCCESS
    assert 200 <= refused <= 210
    assert world.kv_path.stat().st_size < 110_000


async def test_a_change_of_settings_of_a_megabyte_is_refused_unread(world: World) -> None:
    talk = await world.talk()
    answer = await talk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"maxTopics=5\n" * 100_000)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "at most 65536 are taken at once" in (answer.remark or "")


# --- registrations in parts -----------------------------------------------------------------------------------------


def test_parts_of_a_registration_add_up_and_change_topics_that_are_known() -> None:
    table = RouteTable()
    names = [f"t{number}" for number in range(50)]

    def tell(facts: RegistrationFacts) -> None:
        for place, body in enumerate(facts.bodies(1 << 20)):
            wrapper = decode_registration(body, 500).topic_config_serialize_wrapper
            table.register(registration(version=wrapper.data_version, topics=wrapper.topic_config_table), place)

    settings: dict[str, Any] = {"in_parts": True, "part_topics": 7}
    tell(RegistrationFacts(version(1), topics(*names, queues=4), **settings))
    assert sorted(table.topics()) == sorted(names)
    assert table.version("DefaultCluster", "broker-a-0:10911") == version(1)
    tell(RegistrationFacts(DataVersion(counter=2, timestamp=1001), topics(*names, queues=8), **settings))
    for name in names:
        route = table.route(name)
        assert route is not None
        assert route.queue_datas[0].write_queue_nums == 8
