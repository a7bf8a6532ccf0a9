"""A gRPC client on an in-memory stream of a whole broker on virtual time: any method, several elements, resets."""

from __future__ import annotations

from typing import Any

from pyromq.protocol.grpc import v2
from pyromq.proxy.methods import PATH
from pyromq.transport.memory import pair
from tests.broker.virtual import Virtual
from tests.kernel.http2_peer import Peer
from tests.kernel.twins import PEER
from tests.transport.support import ADDRESS, BytesPeer, join


class Client:
    """Its calls are numbered from 1. `window`: what the server may send of one answer before it is asked for more."""

    def __init__(
        self, life: Virtual, client_id: str = "client-1", window: int | None = None, address: str = PEER
    ) -> None:
        near, far = pair(address, ADDRESS)
        life.broker.servers[0].attach_unknown(far)
        self.bytes, self.peer, self.life, self._next = join(near, BytesPeer), Peer(window), life, 1
        self.metadata = {"x_mq_client_id": client_id, "x_mq_language": "JAVA", "x_mq_client_version": "5.2.0"}

    def begin(self, method: str, request: Any, *, end: bool = True, **more: str) -> int:
        """Say a call without waiting for anything; return its stream."""
        stream, self._next = self._next, self._next + 2
        fields = {**self.metadata, **more}
        own = [(name.replace("_", "-"), text) for name, text in fields.items()]
        fixed = [(":method", "POST"), (":scheme", "http"), (":path", PATH + method), (":authority", "h:1")]
        self.peer.h2.send_headers(stream, [*fixed, ("content-type", "application/grpc"), *own])
        data = request if isinstance(request, bytes) else request.SerializeToString()
        self.peer.h2.send_data(stream, b"\0" + len(data).to_bytes(4, "big") + data, end_stream=end)
        return stream

    def flush(self) -> None:
        self.bytes.write(self.peer.said())

    async def hear(self) -> None:
        await self.life.clock.settle()
        heard = bytes(self.bytes.raw)
        self.bytes.raw.clear()
        if heard:
            self.peer.hear(heard)

    def cut(self) -> None:
        """End the connection."""
        assert self.bytes.stream is not None
        self.bytes.stream.close()

    async def settle(self) -> None:
        """Let everything be done about what was said."""
        self.flush()
        for _ in range(3):  # what waits for the disk, and what follows from that
            await self.hear()
            await self.life.broker.store.flush_log()
        await self.hear()

    def raw(self, stream: int) -> list[bytes]:
        """The messages of an answer, as they came."""
        data = b"".join(part for part in self.peer.answers.get(stream, []) if isinstance(part, bytes))
        found = []
        while data:
            size = int.from_bytes(data[1:5], "big")
            found.append(data[5 : 5 + size])
            data = data[5 + size :]
        return found

    def is_ended(self, stream: int) -> bool:
        return "ended" in self.peer.answers.get(stream, [])

    async def ask(self, method: str, request: Any, **more: Any) -> list[bytes]:
        """Say a call and return all of its answer, once it has ended."""
        stream = self.begin(method, request, **more)
        await self.settle()
        for _ in range(80):
            if self.is_ended(stream):
                break
            await self.life.clock.advance(0.5)
            await self.settle()
        trailers = [part for part in self.peer.answers[stream] if isinstance(part, dict)][-1]
        assert trailers["grpc-status"] == "0", trailers
        return self.raw(stream)

    async def consume(self, group: str, *topics: str, push: bool = False) -> int:
        """Open a telemetry stream with a consumer's settings."""
        wanted = v2.FilterExpression(type=v2.FilterType.TAG, expression="*")
        entries = [v2.SubscriptionEntry(topic=v2.Resource(name=topic), expression=wanted) for topic in topics]
        settings = v2.Settings(
            client_type=v2.ClientType.PUSH_CONSUMER if push else v2.ClientType.SIMPLE_CONSUMER,
            subscription=v2.Subscription(group=v2.Resource(name=group), subscriptions=entries),
        )
        settings.request_timeout.FromSeconds(3)
        stream = self.begin("Telemetry", v2.TelemetryCommand(settings=settings), end=False)
        await self.settle()
        assert v2.TelemetryCommand.FromString(self.raw(stream)[0]).status.code == v2.Code.OK
        return stream

    async def produce(self, *topics: str) -> int:
        """Open a telemetry stream with a producer's settings."""
        publishing = v2.Publishing(topics=[v2.Resource(name=topic) for topic in topics])
        settings = v2.Settings(client_type=v2.ClientType.PRODUCER, publishing=publishing)
        stream = self.begin("Telemetry", v2.TelemetryCommand(settings=settings), end=False)
        await self.settle()
        assert v2.TelemetryCommand.FromString(self.raw(stream)[0]).status.code == v2.Code.OK
        return stream

    async def receive(self, request: Any, **more: str) -> list[v2.Message]:
        """The messages of a receive."""
        answer = [
            v2.ReceiveMessageResponse.FromString(one) for one in await self.ask("ReceiveMessage", request, **more)
        ]
        return [one.message for one in answer if one.HasField("message")]


def wish(topic: str = "A", group: str = "g", *, invisible_s: float = 30, tags: str = "*", **more: Any) -> Any:
    request = v2.ReceiveMessageRequest(
        group=v2.Resource(name=group),
        message_queue=v2.MessageQueue(topic=v2.Resource(name=topic), id=-1, broker=v2.Broker(name="broker-a")),
        filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression=tags),
        **({"batch_size": 32} | more),
    )
    if not more.get("auto_renew"):
        request.invisible_duration.FromMilliseconds(int(invisible_s * 1000))
    request.long_polling_timeout.FromSeconds(5)
    return request


def ack(*received: v2.Message, group: str = "g") -> v2.AckMessageRequest:
    entries = [
        v2.AckMessageEntry(
            message_id=one.system_properties.message_id, receipt_handle=one.system_properties.receipt_handle
        )
        for one in received
    ]
    return v2.AckMessageRequest(group=v2.Resource(name=group), topic=received[0].topic, entries=entries)


def change(message: v2.Message, seconds: float, group: str = "g", **more: Any) -> v2.ChangeInvisibleDurationRequest:
    request = v2.ChangeInvisibleDurationRequest(
        group=v2.Resource(name=group),
        topic=message.topic,
        receipt_handle=message.system_properties.receipt_handle,
        message_id=message.system_properties.message_id,
        **more,
    )
    request.invisible_duration.FromMilliseconds(int(seconds * 1000))
    return request
