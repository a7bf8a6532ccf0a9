from __future__ import annotations

import random
from typing import Any

import pytest

from pyromq.client.config import ClientConfig
from pyromq.client.connect.name_servers import NameServers
from pyromq.client.connect.outages import Outages
from pyromq.client.core.routing import Rotation, queue_for_key, route_of
from pyromq.errors import ConnectionLost
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.command import Command
from pyromq.testing.clock import ManualClock


def part(name: str, perm: int = 6, read: int = 2, write: int = 2) -> QueueData:
    return QueueData(broker_name=name, perm=perm, read_queue_nums=read, write_queue_nums=write)


def brokers(**addresses: dict[int, str]) -> list[BrokerData]:
    return [BrokerData(broker_name=name, broker_addrs=each) for name, each in addresses.items()]


def short(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_queues_are_sorted_by_broker_whatever_the_answer_s_order() -> None:
    data = TopicRouteData(broker_datas=brokers(a={0: "A"}, b={0: "B"}), queue_datas=[part("b"), part("a", write=1)])
    route = route_of("T", data)
    assert short(route.writable) == ["a0", "b0", "b1"]
    assert short(route.readable) == ["a0", "a1", "b0", "b1"]


def test_permissions_and_masters_decide() -> None:
    data = TopicRouteData(
        broker_datas=brokers(read={0: "R"}, write={0: "W"}, slave={1: "S"}),
        queue_datas=[part("read", perm=4), part("write", perm=2), part("slave")],
    )
    route = route_of("T", data)
    assert short(route.writable) == ["write0", "write1"]
    assert short(route.readable) == ["read0", "read1", "slave0", "slave1"]


def test_an_order_topic_keeps_its_queues_while_a_broker_is_away() -> None:
    data = TopicRouteData(broker_datas=brokers(a={0: "A"}), queue_datas=[part("a")], order_topic_conf="a:1; gone:2;")
    route = route_of("T", data)
    assert short(route.writable) == ["a0", "gone0", "gone1"]
    assert route.master("gone") is None


@pytest.mark.parametrize("nonsense", ["garbage", "a:1;garbage", "a:x", ":4", "a:-1", "a:1;a:2"])
def test_an_order_that_cannot_be_read_lets_nothing_be_written(nonsense: str) -> None:
    data = TopicRouteData(broker_datas=brokers(a={0: "A"}), queue_datas=[part("a")], order_topic_conf=nonsense)
    route = route_of("T", data)
    assert (route.writable, short(route.readable)) == ((), ["a0", "a1"])
    assert f"ORDER_TOPIC_CONFIG of T is '{nonsense}'" in route.write_fault


def test_reading_follows_the_suggestion_then_the_master_then_any_slave() -> None:
    data = TopicRouteData(broker_datas=brokers(a={0: "M", 1: "S"}, b={2: "S2", 3: "S3"}), queue_datas=[])
    route = route_of("T", data)
    assert (route.reader("a", 1), route.reader("a", 7), route.reader("a")) == ("S", "M", "M")
    assert (route.reader("b"), route.reader("c")) == ("S2", None)


def test_a_key_goes_where_java_s_selector_puts_it() -> None:
    queues = [MessageQueue(broker_name="a", queue_id=number, topic="T") for number in range(7)]
    # What SelectMessageQueueByHash of 5.5.0 answered; the third has the smallest hash code of all, -2147483648.
    java = {"user-42": 5, "a": 6, "polygenelubricants": 2, "order-1001": 5, "Größe": 4}
    assert {key: queue_for_key(queues, key).queue_id for key in java} == java


def test_the_rotation_visits_all_and_skips_what_does_not_fit() -> None:
    queues = [MessageQueue(broker_name=name, queue_id=number, topic="T") for name in "ab" for number in range(2)]
    rotation = Rotation(random.Random(1))
    assert {rotation.pick(queues, lambda queue: True) for _ in range(4)} == set(queues)
    only = [rotation.pick(queues, lambda queue: queue.broker_name == "b") for _ in range(4)]
    assert only == [queues[2], queues[3]] * 2 or only == [queues[3], queues[2]] * 2
    assert rotation.pick(queues, lambda queue: False) is None


class OneIsDown:
    """Connections to name servers of which one does not answer."""

    def __init__(self, down: str) -> None:
        self.down, self.asked = down, list[str]()

    async def call(self, address: str, request: Command, timeout_s: float) -> Command:
        self.asked.append(address)
        if address == self.down:
            raise ConnectionLost(f"{address} is down")
        return Command(code=0, body=b'{"topicList":[]}')


async def test_name_servers_are_shuffled_and_a_failed_one_goes_last() -> None:
    config = ClientConfig(name_servers=("a:1", "b:1", "c:1"))
    client: Any = OneIsDown("a:1")
    firsts = set()
    for seed in range(40):
        client.asked.clear()
        servers = NameServers(client, config, random.Random(seed), Outages(ManualClock(), lambda: True))
        await servers.topics()
        firsts.add(client.asked[0])
        if client.asked[0] == "a:1":
            assert client.asked[1:] == ["b:1"] or client.asked[1:] == ["c:1"]
            await servers.topics()
            assert client.asked[2] == client.asked[1]  # the one that answered is in front
    assert firsts == {"a:1", "b:1", "c:1"}
