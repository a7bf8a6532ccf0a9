"""A whole broker under gRPC sends: what the kernel takes is stored and answered as the RPC in Python does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.replication.settings import BrokerRole
from pyromq.broker.wiring import grpc_sends
from pyromq.kernel import choice
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.grpc import v2
from pyromq.protocol.replication.classic import encode_report
from pyromq.store.config import FlushMode
from pyromq.testing.clock import ManualClock
from pyromq.transport import server as serving
from pyromq.transport.http2.session import ServerSession
from pyromq.transport.memory import pair
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.http2_peer import Peer
from tests.kernel.twins import PEER, choose, contents, native_module, ready
from tests.support import require
from tests.transport.support import ADDRESS, BytesPeer, join


class Client:
    """A gRPC client on an in-memory stream; its calls are numbered from 1."""

    def __init__(self, life: Virtual) -> None:
        near, far = pair(PEER, ADDRESS)
        life.broker.servers[0].attach_unknown(far)
        self.bytes, self.peer, self._life, self.calls = join(near, BytesPeer), Peer(), life, 0

    def say(self, *requests: v2.SendMessageRequest) -> None:
        for request in requests:
            self.peer.call(2 * self.calls + 1, request.SerializeToString())
            self.calls += 1
        self.bytes.write(self.peer.said())

    async def hear(self) -> None:
        await self._life.clock.settle()
        heard = bytes(self.bytes.raw)
        self.bytes.raw.clear()
        if heard:
            self.peer.hear(heard)

    async def send(self, *requests: v2.SendMessageRequest) -> list[v2.SendMessageResponse]:
        """Send them in one write; return the answers."""
        first = self.calls
        self.say(*requests)
        await self.hear()
        await self._life.broker.store.flush_log()
        await self.hear()
        return [self.answer(number) for number in range(first, self.calls)]

    def answer(self, number: int) -> v2.SendMessageResponse:
        _, data, trailers, _ = self.peer.answers[2 * number + 1]
        assert trailers == {"grpc-status": "0"}
        assert isinstance(data, bytes)
        return v2.SendMessageResponse.FromString(data[5:])


def message(topic: str, number: int, **more: Any) -> v2.Message:
    made = v2.Message(topic=v2.Resource(name=topic), body=b"body %d" % number)
    system = made.system_properties
    system.message_id = f"01{number:030X}"
    system.born_timestamp.FromMilliseconds(1_700_000_000_000 + number)
    system.message_type = more.pop("message_type", v2.MessageType.NORMAL)
    for name, value in more.items():
        if name == "keys":
            system.keys.extend(value)
        elif name == "user":
            made.user_properties.update(value)
        else:
            setattr(system, name, value)
    return made


STORY = [
    message("A", 1),
    message("A", 2, tag="blue", keys=["k1", "k2"], born_host="client", trace_context="trace", delivery_attempt=3),
    message("A", 3, user={"color": "red"}, body_encoding=v2.Encoding.GZIP, queue_id=2),
    message("A", 4, message_group="g"),  # refused: the topic takes plain ones
    message("Typed", 5, born_host="client"),
    message("Unknown", 6),
    message("ReadOnly", 7),
    message("B", 8, user={"name": "grün"}),  # each way has its own turn over the queues: this topic has one
    message("Mixed", 9, message_group="g1"),
    message("Mixed", 10, message_group="g2", message_type=v2.MessageType.FIFO),
    message("Mixed", 11),
    message("Delayed", 12),
    message("A", 13, tag="a|b"),
    message("Kept", 14, message_group="g1", message_type=v2.MessageType.FIFO),
    message("B", 15),
]


async def lived(folder: Path, by_kernel: bool, **settings: Any) -> tuple[list[bytes], dict[str, bytes], int]:
    """Answers, files, and how many calls the kernel served by itself."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, native_module())
        if not by_kernel:
            patch.setattr(grpc_sends, "native_http2", lambda: None)
            patch.setattr(serving, "session_maker", lambda: ServerSession)
        taken: list[Any] = []
        patch.setattr(serving.Server, "serve_hot", noting(taken, serving.Server.serve_hot))
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock, **settings) as life:
            life.broker.topics.put(TopicConfig(topic_name="Mixed", attributes={"message.type": "MIXED"}))
            await ready(life)
            client = Client(life)
            answers = []
            for one in STORY:  # each alone, so that the order of both ways is the same
                answers += await client.send(v2.SendMessageRequest(messages=[one]))
            await life.broker.store.flush_all()
            count = sum(each.taken for each in taken)
            return [each.SerializeToString(deterministic=True) for each in answers], contents(life.disk), count


def noting(taken: list[Any], serve: Any) -> Any:
    def serve_hot(server: serving.Server, sends: Any) -> None:
        taken.append(sends)
        serve(server, sends)

    return serve_hot


@pytest.fixture(autouse=True)
def native() -> None:
    require(
        choice.native_http2() is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)"
    )


@pytest.mark.parametrize("flush", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_records_and_answers_are_those_of_the_rpc_byte_for_byte(tmp_path: Path, flush: FlushMode) -> None:
    by_kernel = await lived(tmp_path / "kernel", True, flush_mode=flush)
    by_rpc = await lived(tmp_path / "rpc", False, flush_mode=flush)
    for number, (one, other) in enumerate(zip(by_kernel[0], by_rpc[0], strict=True)):
        assert v2.SendMessageResponse.FromString(one) == v2.SendMessageResponse.FromString(other), number
    assert by_kernel[1] == by_rpc[1]
    assert (by_kernel[2], by_rpc[2]) == (5, 0)  # 1, 2, 3, 5, 15; what has queues that are not there yet is Python's


async def test_under_sync_flush_answers_wait_for_the_log_and_later_say_so(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, flush_mode=FlushMode.SYNC, sync_flush_timeout=5000) as life:
        await ready(life)
        client = Client(life)
        client.say(v2.SendMessageRequest(messages=[message("A", 1)]))
        await client.hear()
        assert client.peer.answers == {}
        assert life.broker.listeners.pending_replies() == 1
        await life.broker.store.flush_log()
        await client.hear()
        assert client.answer(0).status.code == v2.Code.OK
        client.say(v2.SendMessageRequest(messages=[message("A", 2)]))
        await client.hear()
        await life.advance(5.1)
        await client.hear()
        late = client.answer(1)
        assert late.status.code == v2.Code.MASTER_PERSISTENCE_TIMEOUT
        assert late.entries[0].status.message == "send message failed, sendStatus=FLUSH_DISK_TIMEOUT"


async def test_a_sync_master_s_answers_say_what_slaves_have(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, broker_role=BrokerRole.SYNC_MASTER, slave_timeout=3000) as life:
        await ready(life)
        client, store, port = Client(life), life.broker.store, life.broker.replicating.port
        (alone,) = await client.send(v2.SendMessageRequest(messages=[message("A", 1)]))
        assert alone.status.code == v2.Code.HA_NOT_AVAILABLE
        sender, (near, far) = port.welcome("127.0.0.1:40000"), pair("127.0.0.1:40000", "127.0.0.1:10912")
        assert sender is not None
        far.set_protocol(sender)
        sender.connection_made(far)
        slave = join(near, BytesPeer)
        slave.write(encode_report(store.commit_log.end))
        await life.clock.settle()
        client.say(v2.SendMessageRequest(messages=[message("A", 2)]))
        await client.hear()
        assert (1 in client.peer.answers, 3 in client.peer.answers) == (True, False)
        slave.write(encode_report(store.commit_log.end))
        await client.hear()
        assert client.answer(1).status.code == v2.Code.OK
        client.say(v2.SendMessageRequest(messages=[message("A", 3)]))
        await client.hear()
        await life.advance(3.1)
        await client.hear()
        assert client.answer(2).status.code == v2.Code.SLAVE_PERSISTENCE_TIMEOUT
        near.abort()


async def test_a_verdict_ends_with_the_permission_the_type_and_the_topic(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await ready(life)
        client, request = Client(life), v2.SendMessageRequest(messages=[message("A", 1)])
        (answer,) = await client.send(request)
        assert answer.status.code == v2.Code.OK
        for changed, code in (
            ({"perm": 4}, v2.Code.FORBIDDEN),
            ({"attributes": {"message.type": "DELAY"}}, v2.Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
            ({}, v2.Code.OK),
        ):
            life.broker.topics.put(TopicConfig(topic_name="A", read_queue_nums=4, write_queue_nums=4, **changed))
            (answer,) = await client.send(request)
            assert answer.status.code == code


async def test_calls_that_the_kernel_serves_keep_a_connection_alive(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await ready(life)
        client = Client(life)
        for number in range(5):
            (answer,) = await client.send(v2.SendMessageRequest(messages=[message("A", number)]))
            assert answer.status.code == v2.Code.OK
            await life.advance(100)  # idle ones are closed after 120 s
