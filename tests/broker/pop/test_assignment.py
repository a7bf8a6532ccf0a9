"""Queues that the broker assigns (400) and the mode of a group (401, 402): by Java's recordings, and over brokers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.pop.queries.topic_routes import TopicRoutes
from pyromq.errors import ConnectionLost
from pyromq.model.group import MessageRequestMode
from pyromq.protocol.bodies.route import QueueData, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import read_whole
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.peers import FakePeer
from tests.broker.pop.recorded import exchanges
from tests.broker.virtual import START_MS, Virtual, virtual_broker

RECORDED = {
    pair: one
    for pair, one in exchanges().items()
    if one.request.code in (RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE, 402)
}
FILE = "config/messageRequestMode.json"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        yield running


async def join(broker: Virtual, group: str, *clients: str) -> None:
    for number, client in enumerate(clients):
        broker.peer = FakePeer(f"127.0.0.1:{50_100 + number}")
        data = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
        body = {"clientID": client, "consumerDataSet": [data | {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}]}
        assert (await broker.call(RequestCode.HEART_BEAT, json.dumps(body).encode())).code == 0


def add_topic(broker: Virtual, name: str, queues: int) -> None:
    broker.broker.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6))


async def ask(broker: Virtual, topic: str = "T", group: str = "G", client: str = "c0", **extra: Any) -> Any:
    body = {"topic": topic, "consumerGroup": group, "clientId": client, "strategyName": "AVG"} | extra
    return await broker.call(RequestCode.QUERY_ASSIGNMENT, json.dumps(body).encode())


async def queues(broker: Virtual, **asked: Any) -> list[tuple[str, int, str]]:
    answer = json.loads((await ask(broker, **asked)).body)
    each = [(one["messageQueue"], one["mode"]) for one in answer["messageQueueAssignments"]]
    return sorted((queue["brokerName"], queue["queueId"], mode) for queue, mode in each)


async def set_mode(broker: Virtual, mode: str = "POP", share: int = 0, topic: str = "T", group: str = "G") -> Command:
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share}
    return await broker.call(RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())


def comparable(body: bytes) -> Any:
    """A set of Java's has no order of its own."""
    content = json.loads(body) if body else None
    if isinstance(content, dict) and "messageQueueAssignments" in content:
        return sorted(json.dumps(one, sort_keys=True) for one in content["messageQueueAssignments"])
    return content


async def test_the_recorded_requests_get_the_recorded_answers(broker: Virtual) -> None:
    add_topic(broker, "PfAssign", 4)
    add_topic(broker, "PfAssign1", 1)
    await join(broker, "pf-assign", *(f"client-{number}" for number in range(4)))
    assert len(RECORDED) == 19
    for scenario, request, answer in RECORDED.values():
        ours = await broker.call(request.code, bytes(request.body))
        assert (ours.code, ours.remark) == (answer.code, answer.remark), scenario
        assert comparable(bytes(ours.body)) == comparable(bytes(answer.body)), scenario


async def test_an_empty_request_is_told_what_is_missing(broker: Virtual) -> None:
    for code in (RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE):
        answer = await broker.call(code)
        assert answer.code == 1
        assert "java" not in (answer.remark or "java")


async def test_members_share_the_queues_and_each_pop_client_of_a_share_takes_its_neighbours_too(
    broker: Virtual,
) -> None:
    add_topic(broker, "T", 6)
    await join(broker, "G", "c0", "c1", "c2")
    assert await queues(broker, client="c1") == [("broker-a", 2, "PULL"), ("broker-a", 3, "PULL")]
    await set_mode(broker, share=1)
    assert [each[1] for each in await queues(broker, client="c2")] == [0, 1, 4, 5]
    await set_mode(broker, share=2)  # as many as there are others: then all pop everything
    assert await queues(broker, client="c2") == [("broker-a", -1, "POP")]
    await set_mode(broker, mode="PULL")
    assert await queues(broker, client="c2") == [("broker-a", 4, "PULL"), ("broker-a", 5, "PULL")]


async def test_pairs_without_a_mode_follow_the_settings_and_retry_topics_are_pulled(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "default_message_request_mode": MessageRequestMode.POP,
        "default_pop_share_queue_num": 1,
    }
    async with virtual_broker(tmp_path, **settings) as broker:
        add_topic(broker, "T", 4)
        await join(broker, "G", "c0", "c1", "c2", "c3")
        assert await queues(broker) == [("broker-a", 0, "POP"), ("broker-a", 1, "POP")]
        add_topic(broker, "%RETRY%G", 1)
        assert await queues(broker, topic="%RETRY%G") == [("broker-a", 0, "PULL")]


async def test_without_the_balancer_everybody_gets_every_queue(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, server_load_balancer_enable=False) as broker:
        add_topic(broker, "T", 3)
        assert [each[1] for each in await queues(broker)] == [0, 1, 2]  # also who is in no group


async def test_a_topic_that_may_not_be_read_has_no_queues(broker: Virtual) -> None:
    add_topic(broker, "T", 3)
    broker.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3, perm=2))
    await join(broker, "G", "c0")
    assert (await ask(broker)).body == b"{}"


# --- the table --------------------------------------------------------------------------------------------------------


async def test_the_mode_is_on_disk_before_the_answer_as_java_writes_it(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as broker:
        add_topic(broker, "GoldenPop", 1)
        assert (await set_mode(broker, share=1, topic="GoldenPop", group="GID_pop")).code == 0
        text = read_whole(disk, FILE).decode()
    golden = """{
\t"messageRequestModeMap":{
\t\t"GoldenPop":{
\t\t\t"GID_pop":{
\t\t\t\t"consumerGroup":"GID_pop",
\t\t\t\t"mode":"POP",
\t\t\t\t"popShareQueueNum":1,
\t\t\t\t"topic":"GoldenPop"
\t\t\t}
\t\t}
\t}
}"""
    assert text == golden
    disk = disk.kill()
    async with virtual_broker(tmp_path, disk, clock) as broker:
        answer = json.loads(bytes((await broker.call(402)).body))
        assert answer["messageRequestModeMap"]["GoldenPop"]["GID_pop"]["mode"] == "POP"


async def test_a_group_that_may_not_be_made_has_no_mode(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, auto_create_subscription_group=False) as broker:
        add_topic(broker, "T", 1)
        answer = await set_mode(broker)
        assert (answer.code, answer.remark) == (26, "subscription group does not exist")


async def test_more_pairs_than_the_limit_are_refused_and_known_ones_are_not(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, max_consumer_offsets=1) as broker:
        add_topic(broker, "T", 1)
        assert (await set_mode(broker)).code == 0
        refused = await set_mode(broker, group="H")
        assert (refused.code, "maxConsumerOffsets" in (refused.remark or "")) == (1, True)
        assert (await set_mode(broker, mode="PULL")).code == 0


# --- queues of other brokers ------------------------------------------------------------------------------------------


class NameServer:
    """Answers with what it is told to, and counts."""

    def __init__(self) -> None:
        self.route: TopicRouteData | Exception | None = None
        self.asked = 0

    async def __call__(self, topic: str) -> TopicRouteData | None:
        self.asked += 1
        if isinstance(self.route, Exception):
            raise self.route
        return self.route

    def has(self, **counts: int) -> None:
        parts = [QueueData(broker_name=name.replace("_", "-"), perm=6, read_queue_nums=n) for name, n in counts.items()]
        self.route = TopicRouteData(queue_datas=parts)


async def other_queues(broker: Virtual, server: NameServer) -> list[tuple[str, int]]:
    routes = broker.broker.balance.assignments.routes
    object.__setattr__(routes, "ask", server)
    return [each[:2] for each in await queues(broker)]


async def test_queues_of_all_brokers_are_assigned_the_own_ones_as_they_are_now(broker: Virtual) -> None:
    add_topic(broker, "T", 1)
    await join(broker, "G", "c0")
    server = NameServer()
    server.has(broker_a=9, broker_b=2)
    assert await other_queues(broker, server) == [("broker-a", 0), ("broker-b", 0), ("broker-b", 1)]
    add_topic(broker, "T", 2)
    assert await other_queues(broker, server) == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
    assert server.asked == 1
    server.has(broker_b=1)
    await broker.advance(31)
    assert await other_queues(broker, server) == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0)]


async def test_while_no_name_server_answers_the_last_route_counts_and_none_is_made_up(broker: Virtual) -> None:
    add_topic(broker, "T", 1)
    await join(broker, "G", "c0")
    server = NameServer()
    server.route = ConnectionLost("away")
    object.__setattr__(broker.broker.balance.assignments.routes, "ask", server)
    assert (await ask(broker)).body == b"{}"
    server.has(broker_b=1)
    assert await other_queues(broker, server) == [("broker-a", 0), ("broker-b", 0)]
    server.route = ConnectionLost("away")
    await broker.advance(31)
    assert await other_queues(broker, server) == [("broker-a", 0), ("broker-b", 0)]


async def test_a_route_of_absurd_size_is_not_believed(broker: Virtual) -> None:
    add_topic(broker, "T", 1)
    server = NameServer()
    server.has(broker_b=2_000_000_000)
    routes = TopicRoutes(broker.broker.topics, "broker-a", broker.clock, server)
    found = await routes.fetch("T")
    assert found is not None
    assert len(found) == 1
