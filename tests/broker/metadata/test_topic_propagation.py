"""An auto-created topic reaches the cluster's other brokers, and leaves those alone that have it."""

from __future__ import annotations

import json
from pathlib import Path

from pyromq.ambient import SystemClock
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Dispatcher, Handler, Reply, Request
from pyromq.transport.server import Server
from tests.broker.running import running_broker, turns_until


class FakeNameServer:
    """Knows brokers that a test tells it of."""

    def __init__(self) -> None:
        self.brokers: dict[str, str] = {}
        handlers: dict[int, Handler] = {
            RequestCode.REGISTER_BROKER: lambda request: Reply(),
            RequestCode.QUERY_DATA_VERSION: lambda request: Reply(fields={"changed": "false"}),
            RequestCode.UNREGISTER_BROKER: lambda request: Reply(),
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster,
        }
        self.server = Server(Dispatcher(handlers), clock=SystemClock())

    def cluster(self, request: Request) -> Reply:
        table = {
            name: {"brokerAddrs": {"0": address}, "brokerName": name, "cluster": "DefaultCluster"}
            for name, address in self.brokers.items()
        }
        body = {"brokerAddrTable": table, "clusterAddrTable": {"DefaultCluster": list(table)}}
        return Reply(body=json.dumps(body).encode())


async def test_the_first_send_makes_the_topic_on_every_broker_that_lacks_it(tmp_path: Path) -> None:
    names = FakeNameServer()
    address = await names.server.start("127.0.0.1", 0)
    first = running_broker(tmp_path / "a", broker_name="broker-a", namesrv_addr=(address,))
    second = running_broker(tmp_path / "b", broker_name="broker-b", namesrv_addr=(address,))
    third = running_broker(tmp_path / "c", broker_name="broker-c", namesrv_addr=(address,))
    async with first as a, second as b, third as c:
        names.brokers = {"broker-a": a.address, "broker-b": b.address, "broker-c": c.address}
        own = TopicConfig(topic_name="New", read_queue_nums=1, write_queue_nums=1)
        c.broker.topics.put(own)
        await a.send("New", defaultTopicQueueNums=3)
        await turns_until(lambda: "New" in b.broker.topics)
        made = b.broker.topics.find("New")
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
        assert c.broker.topics.find("New") == own
        a.broker.live.change("spreadAutoCreatedTopics=false")
        await a.send("Alone")
        await a.send("New")
        assert "Alone" not in b.broker.topics
    await names.server.stop(1)


async def test_a_broker_whose_address_is_none_keeps_no_other_from_the_topic(tmp_path: Path) -> None:
    names = FakeNameServer()
    address = await names.server.start("127.0.0.1", 0)
    first = running_broker(tmp_path / "a", broker_name="broker-a", namesrv_addr=(address,))
    second = running_broker(tmp_path / "b", broker_name="broker-b", namesrv_addr=(address,))
    async with first as a, second as b:
        names.brokers = {"bad": "no address\x1b", "broker-a": a.address, "broker-b": b.address}
        await a.send("New")
        await turns_until(lambda: "New" in b.broker.topics)
        await turns_until(lambda: not a.broker.naming._propagation._tasks)
    await names.server.stop(1)
