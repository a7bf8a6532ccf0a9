"""Whole conversations with the name server over memory streams, on a clock that moves when told to."""

from __future__ import annotations

import asyncio
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from pyromq.config import Loaded
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.route_table import RouteTable
from pyromq.namesrv.server import run
from pyromq.protocol.bodies.body import DataVersion, decode_body, encode_body
from pyromq.protocol.bodies.registration import body_crc, encode_registration
from pyromq.protocol.bodies.route import QueueData, TopicRouteData
from pyromq.protocol.command import Command
from pyromq.protocol.json import parse_json
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.clock import ManualClock
from tests.namesrv.builders import mapping, topics
from tests.namesrv.world import Talk, World, broker_body, broker_header, register
from tests.wire import FrameDecoder

TWO = topics("TopicA", "TopicB")


@pytest.fixture
async def talk(world: World) -> Talk:
    return await world.talk()


async def route(talk: Talk, topic: str = "TopicA", **fields: Any) -> TopicRouteData | None:
    response = await talk.ask(Code.GET_ROUTEINFO_BY_TOPIC, topic=topic, **fields)
    if response.code == 17:
        return None
    assert response.code == 0, response.remark
    return decode_body(TopicRouteData, bytes(response.body))


async def addresses(talk: Talk, topic: str = "TopicA", **fields: Any) -> dict[str, dict[int, str]]:
    found = await route(talk, topic, **fields)
    return {one.broker_name: one.broker_addrs for one in found.broker_datas} if found else {}


# --- registration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("compressed", "declared"), [(False, "false"), (True, "true"), (True, "false")])
async def test_a_registration_may_be_compressed_and_say_so_or_not(talk: Talk, compressed: bool, declared: str) -> None:
    """5.x brokers write compressed=false even when they compress."""
    infos = {"TopicA": mapping("TopicA", "broker-a")}
    body = encode_registration(broker_body(TWO, topic_queue_mapping_info_map=infos), compressed)
    header = broker_header(body_crc32=body_crc(body))
    assert (await talk.ask(Code.REGISTER_BROKER, header, body, compressed=declared)).code == 0
    found = await route(talk)
    assert found is not None
    assert found.queue_datas[0].read_queue_nums == 4
    assert found.topic_queue_mapping_by_broker is not None
    assert found.topic_queue_mapping_by_broker["broker-a"].curr_id_map == {0: 0, 1: 1}


async def test_a_wrong_checksum_is_refused_and_nothing_is_registered(talk: Talk) -> None:
    body = encode_registration(broker_body(TWO))
    response = await talk.ask(Code.REGISTER_BROKER, broker_header(body_crc32=body_crc(body) ^ 1), body)
    assert (response.code, response.remark) == (1, "crc32 not match")
    assert await route(talk) is None


@pytest.mark.parametrize("body", [b"{", b"[]", zlib.compress(b"\0\0\0\x7f"), b"x\x9c\xff"])
async def test_a_registration_that_cannot_be_read_is_refused_and_the_connection_goes_on(
    talk: Talk, body: bytes
) -> None:
    response = await talk.ask(Code.REGISTER_BROKER, broker_header(), body)
    assert response.code == 1
    assert response.remark
    assert (await register(talk, TWO)).code == 0


async def test_a_4_9_broker_registers_with_a_bare_table_before_3_0_11_only(talk: Talk) -> None:
    wrapper = broker_body(TWO).topic_config_serialize_wrapper
    bare = encode_body(wrapper)
    assert (await talk.ask(Code.REGISTER_BROKER, broker_header(), bare, version=36)).code == 0
    assert await addresses(talk) == {"broker-a": {0: "broker-a-0:10911"}}


async def test_an_unknown_id_with_one_topic_is_refused(talk: Talk) -> None:
    response = await register(talk, topics("Single"))
    assert response.code == 1
    assert response.remark is not None
    assert "register broker failed" in response.remark


async def test_an_outdated_master_is_answered_with_success_and_ignored(talk: Talk) -> None:
    for address, state, ignored in (("new:1", 5, False), ("old:1", 4, True)):
        body = encode_registration(broker_body(TWO, DataVersion(state_version=state, counter=1)))
        response = await talk.ask(Code.REGISTER_BROKER, broker_header(broker_addr=address), body)
        assert response.code == 0
        assert (response.remark or "").startswith("ignored") is ignored
    assert await addresses(talk) == {"broker-a": {0: "new:1"}}


async def test_a_slave_hears_of_its_master(talk: Talk) -> None:
    await register(talk, TWO)
    response = await register(talk, TWO, broker_header(broker_id=1))
    assert response.fields == {"masterAddr": "broker-a-0:10911", "haServerAddr": "broker-a-0:10912"}


async def test_data_versions_tell_a_broker_whether_it_must_register(talk: Talk) -> None:
    header: dict[str, Any] = {
        "brokerName": "broker-a",
        "brokerAddr": "broker-a-0:10911",
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }
    held, other = DataVersion(counter=1, timestamp=1), DataVersion(counter=2, timestamp=1)
    response = await talk.ask(Code.QUERY_DATA_VERSION, body=encode_body(held), **header)
    assert (response.fields, response.body) == ({"changed": "true"}, b"")
    await register(talk, TWO)
    response = await talk.ask(Code.QUERY_DATA_VERSION, body=encode_body(held), **header)
    assert (response.fields, response.body) == ({"changed": "false"}, encode_body(held))
    response = await talk.ask(Code.QUERY_DATA_VERSION, body=encode_body(other), **header)
    assert response.fields == {"changed": "true"}


async def test_order_configuration_goes_to_brokers_and_into_routes_as_the_settings_say(
    world: World, talk: Talk
) -> None:
    assert (await register(talk, TWO)).body == b""
    await talk.ask(Code.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:4")
    assert (await register(talk, TWO)).body == b'{"table":{"TopicA":"broker-a:4"}}'
    world.set(returnOrderTopicConfigToBroker="false")
    assert (await register(talk, TWO)).body == b""
    found = await route(talk)
    assert found is not None
    assert found.order_topic_conf == "broker-a:4", "on from the start, unlike Java's"
    found = await route(talk, "TopicB")
    assert found is not None
    assert found.order_topic_conf is None
    world.set(orderMessageEnable="false")
    found = await route(talk)
    assert found is not None
    assert found.order_topic_conf is None


async def test_the_order_of_a_topic_goes_with_its_last_route(talk: Talk) -> None:
    """A topic made anew under the name may have other queues, and Java's deleteTopic leaves the order behind."""
    await register(talk, TWO)
    where: dict[str, Any] = {"namespace": "ORDER_TOPIC_CONFIG", "key": "TopicA"}
    await talk.ask(Code.PUT_KV_CONFIG, **where, value="broker-a:4")
    await talk.ask(Code.DELETE_TOPIC_IN_NAMESRV, topic="TopicA", clusterName="Other")
    assert (await talk.ask(Code.GET_KV_CONFIG, **where)).fields == {"value": "broker-a:4"}
    await talk.ask(Code.DELETE_TOPIC_IN_NAMESRV, topic="TopicA")
    assert (await talk.ask(Code.GET_KV_CONFIG, **where)).code == ResponseCode.QUERY_NOT_FOUND


# --- leaving ----------------------------------------------------------------------------------------------------------


async def test_a_silent_broker_expires_after_120_s_and_its_connection_is_closed(world: World, talk: Talk) -> None:
    watcher = await world.talk()
    await register(talk, TWO)
    for _ in range(12):  # its connection and the watcher's are in use, so that neither is closed for being idle
        await world.clock.advance(10)
        await talk.ask(Code.GET_BROKER_CLUSTER_INFO)
        assert await route(watcher) is not None
    assert not talk.lost.done()
    await world.clock.advance(5)
    assert await route(watcher) is None
    await talk.lost


async def test_heartbeats_keep_a_broker_alive_for_its_own_timeout(world: World, talk: Talk) -> None:
    await register(talk, TWO, broker_header(heartbeat_timeout_millis=10_000))
    beat: dict[str, Any] = {"clusterName": "DefaultCluster", "brokerAddr": "broker-a-0:10911", "brokerName": "broker-a"}
    for _ in range(5):
        await world.clock.advance(9)
        assert (await talk.ask(Code.BROKER_HEARTBEAT, **beat)).code == 0
    watcher = await world.talk()
    assert await route(watcher) is not None
    await world.clock.advance(15)
    assert await route(watcher) is None
    assert (await watcher.ask(Code.BROKER_HEARTBEAT, **beat)).code == 0  # as Java: it registers again soon


async def test_a_connection_that_is_lost_takes_its_broker_with_it_at_once(world: World, talk: Talk) -> None:
    watcher = await world.talk()
    await register(talk, TWO)
    assert await addresses(watcher) == {"broker-a": {0: "broker-a-0:10911"}}
    talk.close()
    await world.clock.settle()
    assert await addresses(watcher) == {}


async def test_a_broker_that_came_back_survives_the_end_of_its_old_connection(world: World, talk: Talk) -> None:
    again = await world.talk()
    await register(talk, TWO)
    await register(again, TWO)
    talk.close()
    await world.clock.settle()
    assert await addresses(again) == {"broker-a": {0: "broker-a-0:10911"}}


async def test_idle_connections_are_closed_after_120_s_and_the_broker_goes_with_them(world: World, talk: Talk) -> None:
    await register(talk, TWO, broker_header(heartbeat_timeout_millis=3_600_000))
    await world.clock.advance(200)
    assert talk.lost.done()
    assert await addresses(await world.talk()) == {}


async def test_unregistration_is_done_when_it_is_answered(talk: Talk) -> None:
    await register(talk, TWO)
    fields: dict[str, Any] = {"brokerName": "broker-a", "clusterName": "DefaultCluster", "brokerId": "0"}
    assert (await talk.ask(Code.UNREGISTER_BROKER, brokerAddr="broker-a-0:10911", **fields)).code == 0
    assert await addresses(talk) == {}
    assert (await talk.ask(Code.UNREGISTER_BROKER, brokerAddr="broker-a-0:10911", **fields)).code == 0


# --- routes -----------------------------------------------------------------------------------------------------------


async def test_keys_of_route_maps_are_quoted_for_clients_from_4_9_4_on(talk: Talk) -> None:
    await register(talk, TWO)
    for version, accepts, quoted in ((400, None, False), (401, None, True), (0, "true", True), (0, "false", False)):
        fields: dict[str, Any] = {"topic": "TopicA"} | ({"acceptStandardJsonOnly": accepts} if accepts else {})
        response = await talk.ask(Code.GET_ROUTEINFO_BY_TOPIC, version=version, **fields)
        assert (b'{"0":"broker-a-0:10911"}' in response.body) is quoted
        assert (b'{0:"broker-a-0:10911"}' in response.body) is not quoted
        assert b" " not in response.body  # the Go client splits this text by hand


async def test_a_client_in_zone_mode_sees_its_own_zone_and_brokers_without_master(talk: Talk) -> None:
    for name, broker_id, zone in (("near", 0, "z1"), ("far", 0, "z2"), ("lost", 1, "z2")):
        header = broker_header(name, broker_id, zone_name=zone)
        await register(talk, TWO, header)
    assert set(await addresses(talk)) == {"near", "far", "lost"}
    assert set(await addresses(talk, __ZONE_MODE="true", __ZONE_NAME="Z1")) == {"near", "lost"}
    assert set(await addresses(talk, __ZONE_MODE="false", __ZONE_NAME="z1")) == {"near", "far", "lost"}
    assert set(await addresses(talk, __ZONE_MODE="true", __ZONE_NAME=" ")) == {"near", "far", "lost"}
    found = await route(talk, __ZONE_MODE="true", __ZONE_NAME="z1")
    assert found is not None
    assert {one.broker_name for one in found.queue_datas} == {"near", "lost"}


async def test_the_smallest_slave_acts_as_master_where_that_is_switched_on(world: World, talk: Talk) -> None:
    names = topics("TopicA", "rmq_sys_SYNC_BROKER_MEMBER_broker-a")
    for broker_id in (2, 1):
        await register(talk, names, broker_header(broker_id=broker_id, enable_acting_master=True))
    as_they_are = {1: "broker-a-1:10911", 2: "broker-a-2:10911"}
    assert await addresses(talk) == {"broker-a": as_they_are}
    world.set(supportActingMaster="true")
    assert await addresses(talk) == {"broker-a": {0: "broker-a-1:10911", 2: "broker-a-2:10911"}}
    assert await addresses(talk, "rmq_sys_SYNC_BROKER_MEMBER_broker-a") == {"broker-a": as_they_are}
    found = await route(talk)
    assert found is not None
    assert found.queue_datas[0].perm == 4
    await register(talk, names, broker_header(broker_id=0, enable_acting_master=True))
    assert await addresses(talk) == {"broker-a": as_they_are | {0: "broker-a-0:10911"}}


async def test_no_routes_are_given_before_brokers_had_time_to_register(world: World, talk: Talk) -> None:
    await register(talk, TWO)
    world.set(needWaitForService="true")
    response = await talk.ask(Code.GET_ROUTEINFO_BY_TOPIC, topic="TopicA")
    assert (response.code, response.remark) == (1, "name server not ready")
    await world.clock.advance(45)
    assert (await talk.ask(Code.GET_ROUTEINFO_BY_TOPIC, topic="TopicA")).code == 0


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_single_topics_are_registered_and_deleted(talk: Talk) -> None:
    await register(talk, TWO)
    await register(talk, TWO, broker_header("broker-b", cluster_name="Other"))
    queues = [QueueData(broker_name="broker-a", perm=6), QueueData(broker_name="broker-b", perm=6)]
    body = encode_body(TopicRouteData(queue_datas=queues))
    assert (await talk.ask(Code.REGISTER_TOPIC_IN_NAMESRV, body=body, topic="New")).code == 0
    assert set(await addresses(talk, "New")) == {"broker-a", "broker-b"}
    assert (await talk.ask(Code.DELETE_TOPIC_IN_NAMESRV, topic="New", clusterName="Other")).code == 0
    assert set(await addresses(talk, "New")) == {"broker-a"}
    assert (await talk.ask(Code.DELETE_TOPIC_IN_NAMESRV, topic="New")).code == 0
    assert await addresses(talk, "New") == {}
    response = await talk.ask(Code.REGISTER_TOPIC_IN_NAMESRV, body=body.replace(b"broker-b", b"broker-x"), topic="New")
    assert response.code == 1
    assert response.remark is not None
    assert "broker-x" in response.remark


async def test_write_permission_of_a_broker(talk: Talk) -> None:
    await register(talk, TWO)
    for code, field, perm in (
        (Code.WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount", 4),
        (Code.ADD_WRITE_PERM_OF_BROKER, "addTopicCount", 6),
    ):
        assert (await talk.ask(code, brokerName="broker-a")).fields == {field: "2"}
        found = await route(talk)
        assert found is not None
        assert found.queue_datas[0].perm == perm


async def test_topic_lists_can_be_switched_off(world: World, talk: Talk) -> None:
    world.set(enableAllTopicList="false", enableTopicList="false")
    for code in (206, 224, 311, 312, 313):
        response = await talk.ask(code, cluster="DefaultCluster")
        assert (response.code, response.remark) == (1, "disable")
    assert (await talk.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS)).code == 0


async def test_pruning_follows_the_setting(world: World, talk: Talk) -> None:
    await register(talk, topics("TopicA", "TopicB", "TopicC"))
    await register(talk, TWO)
    assert await route(talk, "TopicC") is not None
    world.set(deleteTopicWithBrokerRegistration="true")
    await register(talk, TWO)
    assert await route(talk, "TopicC") is None


# --- the smallest id --------------------------------------------------------------------------------------------------


class ListeningBroker(asyncio.Protocol):
    """The side of a broker on which it is told things."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self.heard: list[Command] = []

    def data_received(self, data: bytes) -> None:
        self.heard += self._decoder.feed(data)


def listen(world: World, address: str) -> ListeningBroker:
    broker = ListeningBroker()

    def attach(stream: Any) -> None:
        stream.set_protocol(broker)

    world.network.listen(address, attach)
    return broker


@pytest.fixture
async def acting(world: World) -> dict[int, tuple[Talk, ListeningBroker]]:
    """A master and two slaves, each over its own connection, each of which can be told something."""
    replicas = {}
    for broker_id in (0, 1, 2):
        talk = await world.talk()
        await register(talk, TWO, broker_header(broker_id=broker_id, enable_acting_master=True))
        replicas[broker_id] = talk, listen(world, f"broker-a-{broker_id}:10911")
    return replicas


async def test_replicas_are_told_when_the_smallest_id_changes(
    world: World, acting: dict[int, tuple[Talk, ListeningBroker]]
) -> None:
    world.set(notifyMinBrokerIdChanged="true")
    acting[0][0].close()
    await world.clock.settle()
    for broker_id in (1, 2):
        (notice,) = acting[broker_id][1].heard
        assert (notice.code, notice.is_oneway) == (905, True)
        assert notice.fields == {
            "minBrokerId": "1",
            "brokerName": "broker-a",
            "minBrokerAddr": "broker-a-1:10911",
            "offlineBrokerAddr": "broker-a-0:10911",
        }
    await register(await world.talk(), TWO, broker_header(broker_id=0, enable_acting_master=True))
    await world.clock.settle()
    assert acting[0][1].heard == []
    for broker_id in (1, 2):
        assert acting[broker_id][1].heard[1].fields == {
            "minBrokerId": "0",
            "brokerName": "broker-a",
            "minBrokerAddr": "broker-a-0:10911",
            "haBrokerAddr": "broker-a-0:10912",
        }


async def test_nobody_is_told_by_default_nor_when_the_name_server_stops(
    world: World, acting: dict[int, tuple[Talk, ListeningBroker]]
) -> None:
    acting[0][0].close()
    await world.clock.settle()
    world.set(notifyMinBrokerIdChanged="true")
    await world.close()
    assert acting[1][1].heard == []
    assert world.clock.timers == 0


async def test_a_replica_that_cannot_be_told_disturbs_nobody(
    world: World, acting: dict[int, tuple[Talk, ListeningBroker]]
) -> None:
    world.set(notifyMinBrokerIdChanged="true")
    world.network.unlisten("broker-a-1:10911")
    acting[0][0].close()
    await world.clock.settle()
    assert len(acting[2][1].heard) == 1


# --- what operators keep ----------------------------------------------------------------------------------------------


async def test_kv_configuration_survives_a_restart(world: World, talk: Talk) -> None:
    for key in ("a", "b"):
        assert (await talk.ask(Code.PUT_KV_CONFIG, namespace="ns", key=key, value="1 ä")).code == 0
    assert (await talk.ask(Code.DELETE_KV_CONFIG, namespace="ns", key="a")).code == 0
    await world.close()
    await world.open()
    talk = await world.talk()
    assert (await talk.ask(Code.GET_KV_CONFIG, namespace="ns", key="b")).fields == {"value": "1 ä"}
    assert (await talk.ask(Code.GET_KV_CONFIG, namespace="ns", key="a")).code == 22
    response = await talk.ask(Code.GET_KVLIST_BY_NAMESPACE, namespace="ns")
    assert parse_json(bytes(response.body)) == {"table": {"b": "1 ä"}}


async def test_kv_configuration_that_cannot_be_written_is_refused_and_not_served(world: World, talk: Talk) -> None:
    world.kv_path.with_name("kvConfig.json.tmp").mkdir()  # the file that is written aside cannot be made
    response = await talk.ask(Code.PUT_KV_CONFIG, namespace="ns", key="k", value="v")
    assert response.code == 1
    assert response.remark is not None
    assert str(world.kv_path) in response.remark
    assert (await talk.ask(Code.GET_KV_CONFIG, namespace="ns", key="k")).code == 22


async def change(talk: Talk, text: str) -> Command:
    return await talk.ask(Code.UPDATE_NAMESRV_CONFIG, body=text.encode())


async def test_settings_on_the_allow_list_take_effect_at_once_and_survive_a_restart(world: World, talk: Talk) -> None:
    assert (await change(talk, "enableAllTopicList=false\nscanNotActiveBrokerInterval=100\n")).code == 0
    assert (await talk.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 1
    shown = (await talk.ask(Code.GET_NAMESRV_CONFIG)).body
    assert b"\nenableAllTopicList=false\n" in shown
    overlay = (world.folder / "namesrv-overlay.properties").read_text()
    assert "enableAllTopicList=false" in overlay
    assert "scanNotActiveBrokerInterval=100" in overlay


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("kvConfigPath=/x", 16, "black list"),
        ("rocketmqHome=/x", 16, "black list"),
        ("listenPort=1", 16, "cannot be changed while running"),
        ("allowUnauthenticated=true", 16, "cannot be changed while running"),
        ("defaultThreadPoolNums=4", 16, "cannot be changed while running"),
        ("clusterTest=true", 29, "refused"),
        ("enableAllTopicLst=false", 29, "did you mean 'enableAllTopicList'"),
        ("enableAllTopicList=perhaps", 29, "true or false"),
        ("scanNotActiveBrokerInterval=0", 29, "at least 10"),
        ("enableTopicList=false\nlistenPort=1", 16, "cannot be changed while running"),
        ("", 29, "the request has no key=value line"),
        ("enableTopicList=\\u12", 29, "four hexadecimal digits"),
    ],
)
async def test_other_settings_are_refused_with_the_reason_and_nothing_changes(
    world: World, talk: Talk, text: str, code: int, words: str
) -> None:
    before = (await talk.ask(Code.GET_NAMESRV_CONFIG)).body
    response = await change(talk, text)
    assert response.code == code
    assert response.remark is not None
    assert words in response.remark
    assert (await talk.ask(Code.GET_NAMESRV_CONFIG)).body == before
    assert not (world.folder / "namesrv-overlay.properties").exists()


async def test_settings_whose_overlay_cannot_be_written_are_refused_and_stay(world: World, talk: Talk) -> None:
    (world.folder / "namesrv-overlay.properties.tmp").mkdir()
    response = await change(talk, "enableAllTopicList=false")
    assert response.code == 1
    assert response.remark is not None
    assert "cannot write" in response.remark
    assert (await talk.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0


async def test_a_name_server_whose_expiry_fails_serves_on_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def broken(self: RouteTable, now_ms: int) -> None:
        looks.append(now_ms)
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(RouteTable, "expire", broken)
    clock, addresses, stop_wanted = ManualClock(), asyncio.Queue[str](), asyncio.Event()
    loaded = Loaded(NamesrvConfig(kv_config_path=tmp_path / "kvConfig.json", listen_port=0))
    ready = addresses.put_nowait
    running = asyncio.create_task(run(loaded, clock=clock, rng=random.Random(1), ready=ready, stop_wanted=stop_wanted))
    await addresses.get()
    await clock.advance(60)
    assert len(looks) > 2
    assert not running.done()
    stop_wanted.set()
    await running


async def test_an_expired_broker_leaves_a_connection_open_over_which_another_still_speaks(
    world: World, talk: Talk
) -> None:
    await register(talk, TWO, broker_header("silent", heartbeat_timeout_millis=1_000))
    await register(talk, TWO, broker_header("alive"))
    await world.clock.advance(10)
    assert set(await addresses(talk)) == {"alive"}


async def test_passwords_are_never_shown(tmp_path: Path) -> None:
    world = World(tmp_path, tls_server_key_password="secret", tls_client_key_password="secret")
    await world.open()
    shown = (await (await world.talk()).ask(Code.GET_NAMESRV_CONFIG)).body
    await world.close()
    assert b"secret" not in shown
    assert b"tls.server.mode=permissive" in shown
