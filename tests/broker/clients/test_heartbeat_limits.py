"""A heartbeat that asks for too much is refused whole, naming the setting, and leaves nothing behind."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

import pytest

from pyromq.errors import RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.dispatch import await_answer
from tests.broker.clients.test_handlers import Room
from tests.broker.peers import FakePeer
from tests.broker.settings import live, request


def group(name: str, *topics: str, tags: str = "*") -> dict[str, Any]:
    return {"groupName": name, "subscriptionDataSet": [{"topic": topic, "subString": tags} for topic in topics]}


def refused(room: Room, groups: list[dict[str, Any]], client: str = "c1", **extra: Any) -> RequestRefused:
    body = {"clientID": client, "consumerDataSet": groups} | extra
    topics, known = len(room.topics), len(room.groups)
    with pytest.raises(RequestRefused) as caught:
        room.handlers.heartbeat(request(RequestCode.HEART_BEAT, body=json.dumps(body).encode()))
    assert (len(room.topics), len(room.groups)) == (topics, known)
    assert list(room.consumers.all()) == []
    assert room.producers.all() == {}
    return caught.value


def test_a_heartbeat_naming_200_000_groups_is_refused_before_it_is_decoded(disk: SimulatedDisk) -> None:
    fault = refused(Room(disk), [{"groupName": f"G{number}"} for number in range(200_000)])
    assert "the limit (maxHeartbeatBytes) is 1048576" in str(fault)
    assert fault.code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    ("groups", "settings", "words"),
    [
        ([group(f"G{n}") for n in range(11)], {"max_groups_per_client": 10}, "(maxGroupsPerClient)"),
        ([group("G", *"abcd")], {"max_subscriptions_per_group": 3}, "(maxSubscriptionsPerGroup) is 3"),
        ([group("G", "T", tags="a||b")], {"max_tags_per_subscription": 1}, "(maxTagsPerSubscription)"),
        ([group("G", "T", tags="x" * 300)], {"max_expression_bytes": 256}, "(maxExpressionBytes) is 256"),
        ([group("G1"), group("G2")], {"max_auto_created_groups": 10}, "8 groups, the limit (maxAutoCreatedGroups)"),
        ([group("G" * 256)], {}, "has 256 characters, at most 255 are allowed"),
        ([group("G\x1b[2J")], {}, "cannot be printed"),
        ([group("G", "T\n")], {}, "cannot be printed"),
    ],
)  # fmt: skip
def test_what_is_over_a_limit_is_refused_whole_and_by_name(
    disk: SimulatedDisk, groups: list[dict[str, Any]], settings: dict[str, Any], words: str
) -> None:
    assert words in str(refused(Room(disk, **settings), [group("honest", "T"), *groups]))


async def test_a_refused_heartbeat_is_told_in_the_log_once_in_a_while(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    room = Room(disk, max_tags_per_subscription=2, max_heartbeat_bytes=1024)
    for _ in range(100):
        refused(room, [group("G", "T", tags="a||b||c")], "client-7")
    (line,) = [one.getMessage() for one in caplog.records]
    assert "client=client-7" in line
    assert f"peer={FakePeer().address}" in line
    assert "the limit (maxTagsPerSubscription) is 2" in line
    await room.clock.advance(60)
    refused(room, [group("G" * 2000)])
    assert "(maxHeartbeatBytes) is 1024" in caplog.records[-1].getMessage()
    assert "held_back=99" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("client", ["c" * 256, "c\x00"])
def test_a_client_id_that_is_too_long_or_not_printable_is_refused(disk: SimulatedDisk, client: str) -> None:
    assert "the client id" in str(refused(Room(disk), [], client))
    assert "the producer group" in str(refused(Room(disk), [], producerDataSet=[{"groupName": client}]))


def test_one_connection_cannot_gather_groups_by_many_heartbeats(disk: SimulatedDisk) -> None:
    room, peer = Room(disk, max_groups_per_client=5), FakePeer()
    for number in range(4):
        room.beat(peer, "c1", group=f"G{number}")  # and always the producer's P
    with pytest.raises(RequestRefused, match="a client with 6 groups"):
        room.beat(peer, "c1", group="G4")
    room.beat(peer, "c1", group="G3")
    room.handlers.lost(peer)
    room.beat(peer, "c1", group="G4")


def test_a_group_has_so_many_clients_and_those_that_are_there_stay(disk: SimulatedDisk) -> None:
    room, first = Room(disk, max_clients_per_group=2), FakePeer("a:1")
    room.beat(first, "c1")
    room.beat(FakePeer("b:1"), "c2")
    with pytest.raises(RequestRefused, match=r"group G has 2 clients, the limit \(maxClientsPerGroup\) is 2"):
        room.beat(FakePeer("c:1"), "c3")
    room.beat(first, "c1")


def is_taken(room: Room, peer: FakePeer) -> bool:
    try:
        room.beat(peer, "c0", tags="x" * 2000)
    except RequestRefused:
        return False
    return True


def test_the_tables_of_clients_are_bounded_and_empty_themselves(disk: SimulatedDisk) -> None:
    room = Room(disk, max_client_table_bytes=1 << 20)
    peers = [FakePeer(f"10.0.0.1:{port}") for port in range(1000)]
    taken = list(takewhile(lambda peer: is_taken(room, peer), peers))
    assert 50 < len(taken) < 500
    with pytest.raises(RequestRefused, match=r"the limit \(maxClientTableBytes\) is 1048576") as caught:
        room.beat(peers[-1], "c0", tags="x" * 2000)
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    room.beat(taken[0], "c0", tags="x" * 2000)  # who is there goes on being heard
    for peer in peers:
        room.handlers.lost(peer)
    assert (room.consumers.table_bytes, room.producers.table_bytes) == (0, 0)
    room.beat(peers[-1], "c0", tags="x" * 2000)


def test_groups_of_an_administrator_are_beyond_the_limit(disk: SimulatedDisk) -> None:
    room = Room(disk, max_auto_created_groups=0)
    room.groups.put(SubscriptionGroupConfig(group_name="mine"))
    room.beat(FakePeer(), "c1", group="mine")
    assert "%RETRY%mine" in room.topics
    with pytest.raises(RequestRefused, match="maxAutoCreatedGroups"):
        room.beat(FakePeer(), "c1", group="new")


async def test_a_heartbeat_with_many_groups_lets_others_run_in_between(disk: SimulatedDisk) -> None:
    room, peer = Room(disk), FakePeer()
    body = {"clientID": "c1", "consumerDataSet": [group(f"G{n}", "T") for n in range(500)]}
    answer = room.handlers.heartbeat(request(RequestCode.HEART_BEAT, peer, json.dumps(body).encode()))
    assert len(list(room.consumers.all())) < 50
    reply = await await_answer(answer)
    assert reply is not None
    assert len(list(room.consumers.all())) == 500


def test_more_different_expressions_than_are_remembered_are_refused(disk: SimulatedDisk) -> None:
    subscriptions = [{"topic": f"T{n}", "subString": f"a = {n}", "expressionType": "SQL92"} for n in range(201)]
    fault = refused(Room(disk), [{"groupName": "G", "subscriptionDataSet": subscriptions}])
    assert "201 different SQL92 expressions, the limit (maxExpressionsPerHeartbeat) is 200" in str(fault)


async def test_a_client_that_leaves_during_such_a_heartbeat_is_not_kept(disk: SimulatedDisk) -> None:
    room, peer = Room(disk), FakePeer()
    body = {"clientID": "c1", "consumerDataSet": [group(f"G{n}", "T") for n in range(500)]}
    answer = room.handlers.heartbeat(request(RequestCode.HEART_BEAT, peer, json.dumps(body).encode()))
    peer.close("gone")
    room.handlers.lost(peer)
    assert await await_answer(answer) is None
    assert room.consumers.table_bytes == 0


async def test_queues_that_do_not_exist_are_locked_for_nobody(disk: SimulatedDisk) -> None:
    room = Room(disk)
    room.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
    room.groups.put(SubscriptionGroupConfig(group_name="G"))
    wanted = [
        ("broker-a", "T", 0),
        ("broker-a", "T", 2),
        ("broker-a", "T", -1),
        ("broker-a", "U", 0),
        ("other", "T", 0),
    ]

    async def ask(group: str) -> list[tuple[str, str, int]]:
        queues = [{"brokerName": broker, "topic": topic, "queueId": queue} for broker, topic, queue in wanted]
        body = json.dumps({"clientId": "c1", "consumerGroup": group, "mqSet": queues}).encode()
        reply = await room.handlers.lock(request(RequestCode.LOCK_BATCH_MQ, body=body))
        return [(queue.broker_name, queue.topic, queue.queue_id) for queue in reply.body.lock_ok_mq_set]

    assert await ask("G") == [("broker-a", "T", 0)]
    assert await ask("nobody") == []
    with pytest.raises(RequestRefused, match="maxHeartbeatBytes"):
        await ask("G" * (2 << 20))


@pytest.mark.parametrize(("memory", "most"), [(0, 64 << 20), (2 << 30, 256 << 20), (1 << 40, 1 << 30)])
def test_what_clients_may_take_follows_the_memory_there_is(memory: int, most: int) -> None:
    assert live().config.client_table_bytes(memory) == most
    assert live(max_client_table_bytes=1 << 20).config.client_table_bytes(memory) == 1 << 20
