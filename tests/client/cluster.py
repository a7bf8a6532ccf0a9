"""A scripted cluster on virtual time and memory streams: one name server, brokers that answer as a test tells them.

A broker keeps messages in a list per queue, so that pulls and commits work; any code can be given another answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.model.codes import ResponseCode
from pyromq.model.message import StoredMessage
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import (
    GetConsumerListByGroupResponseBody,
    LockBatchResponseBody,
)
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.record import Record, encode_record
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Answer, Reply, Request
from pyromq.transport.memory import MemoryNetwork
from pyromq.transport.server import Server
from tests.client.messages import HOST, stored

NAMES = "names:9876"
Script = Callable[[Request], Answer]


class FakeBroker:
    """`script[code]` answers before the built-in answers do. `seen` has every request in order."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.address = f"{name}:10911"
        self.script: dict[int, Script] = {}
        self.seen: list[Command] = []
        self.queues: dict[tuple[str, int], list[StoredMessage]] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.members: list[str] = []
        self._cluster = cluster
        self.server = Server(self._serve, clock=cluster.clock)
        cluster.network.listen(self.address, self.server.attach)

    def put(self, topic: str, queue_id: int, *bodies: bytes, **other: Any) -> None:
        queue = self.queues.setdefault((topic, queue_id), [])
        for body in bodies:
            queue.append(stored(len(queue), body, topic=topic, queue_id=queue_id, **other))

    def requests(self, code: int) -> list[Command]:
        return [command for command in self.seen if command.code == code]

    def notify(self, code: int, **fields: str) -> None:
        """A one-way request to every client that is connected."""
        for peer in self.server.peers():
            peer.send(Command(code=code, flag=ONEWAY_FLAG, fields=dict(fields)))

    def cut(self) -> None:
        for peer in tuple(self.server.peers()):
            peer.close("the test cuts it")

    def _serve(self, request: Request) -> Answer:
        self.seen.append(request.command)
        script = self.script.get(request.command.code)
        if script is not None:
            return script(request)
        builtin: Script | None = getattr(self, f"_on_{request.command.code}", None)
        return (
            Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not in this test") if builtin is None else builtin(request)
        )

    def _on_310(self, request: Request) -> Reply:
        fields = request.command.fields
        topic, queue_id = fields["b"], int(fields["e"])
        self.put(topic, queue_id, request.body)
        offset = len(self.queues[topic, queue_id]) - 1
        return Reply(fields={"msgId": f"AT{offset}", "queueId": str(queue_id), "queueOffset": str(offset)})

    def _on_34(self, request: Request) -> Reply:
        beat = request.body
        if beat.consumer_data_set and beat.client_id not in self.members:
            self.members.append(beat.client_id)
        return Reply()

    def _on_35(self, request: Request) -> Reply:
        if "consumerGroup" in request.command.fields:
            self.members.remove(request.command.fields["clientID"])
        return Reply()

    def _on_38(self, request: Request) -> Reply:
        return Reply(body=encode_body(GetConsumerListByGroupResponseBody(consumer_id_list=self.members)))

    def _on_41(self, request: Request) -> Reply:
        wanted = request.body
        return Reply(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=wanted.mq_set)))

    def _on_42(self, request: Request) -> Reply:
        return Reply()

    def _on_14(self, request: Request) -> Reply:
        fields = request.command.fields
        offset = self.offsets.get((fields["topic"], int(fields["queueId"])))
        return Reply(ResponseCode.QUERY_NOT_FOUND) if offset is None else Reply(fields={"offset": str(offset)})

    def _on_15(self, request: Request) -> Reply:
        fields = request.command.fields
        self.offsets[fields["topic"], int(fields["queueId"])] = int(fields["commitOffset"])
        return Reply()

    def _on_30(self, request: Request) -> Reply:
        fields = request.command.fields
        held = self.queues.get((fields["topic"], int(fields["queueId"])), [])
        return Reply(fields={"offset": str(len(held))})

    def _on_31(self, request: Request) -> Reply:
        return Reply(fields={"offset": "0"})

    def _on_11(self, request: Request) -> Answer:
        fields = request.command.fields
        held = self.queues.get((fields["topic"], int(fields["queueId"])), [])
        begin, most = int(fields["queueOffset"]), int(fields["maxMsgNums"])
        found = held[begin : begin + most]
        if not found:
            return self._hold(request, begin, len(held))
        body = b"".join(record_of(message) for message in found)
        return Reply(fields=pull_fields(begin + len(found), len(held)), body=body)

    async def _hold(self, request: Request, begin: int, most: int) -> Reply:
        """A long poll, answered when its time is over or messages came: looked at every 100 ms of virtual time."""
        fields = request.command.fields
        key = (fields["topic"], int(fields["queueId"]))
        until = self._cluster.clock.monotonic() + int(fields["suspendTimeoutMillis"]) / 1000
        while self._cluster.clock.monotonic() < until:
            await self._cluster.clock.sleep(0.1)
            if len(self.queues.get(key, [])) > begin:
                answer = self._on_11(request)
                assert isinstance(answer, Reply)
                return answer
        return Reply(ResponseCode.PULL_NOT_FOUND, fields=pull_fields(begin, most))


class Cluster:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = MemoryNetwork()
        self.brokers: dict[str, FakeBroker] = {}
        self.topics: dict[str, dict[str, int]] = {}  # topic to broker to queues
        self.order_topics: dict[str, str] = {}
        self.slaves: dict[str, FakeBroker] = {}  # by the broker's name
        self.replicas: dict[str, dict[int, str]] = {}  # what a name server says of a broker's name, in place of both
        self.asked: list[Command] = []  # of the name server
        self.names_script: Callable[[Request], Reply] | None = None  # answers in its place
        self.names = Server(self._serve_names, clock=self.clock)
        self.network.listen(NAMES, self.names.attach)
        self.clients: list[Client] = []

    def broker(self, name: str = "a", **topics: int) -> FakeBroker:
        self.brokers[name] = FakeBroker(self, name)
        for topic, queues in topics.items():
            self.topics.setdefault(topic, {})[name] = queues
        return self.brokers[name]

    async def client(self, **settings: Any) -> Client:
        config = ClientConfig(name_servers=(NAMES,), instance=f"me{len(self.clients)}", **settings)
        client = Client(config, clock=self.clock, rng=random.Random(3), connect=self.network.connect)
        await client.start()
        self.clients.append(client)
        return client

    async def close(self) -> None:
        """Stopping may wait for virtual time (handlers, silent brokers): let it pass meanwhile."""
        closing = asyncio.create_task(self._close())
        while not closing.done():
            await self.clock.advance(1)
        closing.result()

    async def _close(self) -> None:
        for client in self.clients:
            await client.stop()
        for broker in self.brokers.values():
            await broker.server.stop(0)
        await self.names.stop(0)

    def _replicas(self, name: str) -> dict[int, str]:
        if name in self.replicas:
            return self.replicas[name]
        found = {0: self.brokers[name].address}
        return found | {1: self.slaves[name].address} if name in self.slaves else found

    def _serve_names(self, request: Request) -> Reply:
        self.asked.append(request.command)
        if self.names_script is not None:
            return self.names_script(request)
        if request.command.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return Reply(body=encode_body({"topicList": list(self.topics)}))
        topic = request.command.fields["topic"]
        parts = self.topics.get(topic)
        if parts is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}")
        route = TopicRouteData(
            broker_datas=[BrokerData(broker_name=name, broker_addrs=self._replicas(name)) for name in parts],
            queue_datas=[
                QueueData(broker_name=name, perm=6, read_queue_nums=queues, write_queue_nums=queues)
                for name, queues in parts.items()
            ],
            order_topic_conf=self.order_topics.get(topic),
        )
        return Reply(body=encode_body(route))


def pull_fields(next_offset: int, most: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": "0",
        "maxOffset": str(most),
    }


def record_of(message: StoredMessage) -> bytes:
    return encode_record(
        Record(
            topic=message.topic,
            body=message.body,
            flag=message.flag,
            properties=encode_properties(message.properties),
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            physical_offset=message.physical_offset,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=HOST,
            store_timestamp=message.store_timestamp,
            store_host=HOST,
            reconsume_times=message.reconsume_times,
        )
    )
