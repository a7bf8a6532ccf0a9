"""gRPC calls without HTTP/2: the functions of a broker's endpoint, called as the transport calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.grpc import v2
from pyromq.proxy.methods import PATH
from pyromq.testing.clock import ManualClock
from pyromq.transport.http2.calls import CallListener
from tests.broker.virtual import Virtual, virtual_broker

METADATA = {
    "x-mq-client-id": "client-1",
    "x-mq-language": "JAVA",
    "x-mq-client-version": "5.2.0",
    "x-mq-protocol": "v2",
}


class TestCall:
    """A call of the test's: what it asks stands in `asked`, what is answered in `answered`."""

    __test__ = False

    def __init__(self, method: str, metadata: dict[str, str], deadline: float | None = None) -> None:
        self.method = PATH + method
        self.metadata = metadata
        self.remote, self.local = "10.0.0.9:40001", "10.0.0.1:8081"
        self.deadline = deadline
        self.asked: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answered: asyncio.Queue[bytes] = asyncio.Queue()
        self.window: asyncio.Event = asyncio.Event()
        self.window.set()

    async def receive(self) -> bytes | None:
        return await self.asked.get()

    async def send(self, message: bytes) -> None:
        await self.window.wait()
        self.answered.put_nowait(message)


async def listened(listener: CallListener | None, call: TestCall) -> None:
    """Serve a call as the transport does."""
    assert listener is not None
    try:
        while (message := await call.receive()) is not None:
            await listener.came(call, message)
    finally:
        listener.ended(call)


class Stream:
    """A telemetry stream that the test holds open."""

    def __init__(self, endpoint: Endpoint, metadata: dict[str, str]) -> None:
        self.call = TestCall("Telemetry", metadata)
        method = endpoint.methods[PATH + "Telemetry"]
        self.task: asyncio.Future[None] = asyncio.ensure_future(listened(method.listener, self.call))

    async def say(self, **command: Any) -> None:
        self.call.asked.put_nowait(v2.TelemetryCommand(**command).SerializeToString())
        await asyncio.sleep(0)

    async def heard(self) -> v2.TelemetryCommand:
        """The next command of the server; raises what ended the stream."""
        waiting = asyncio.ensure_future(self.call.answered.get())
        await asyncio.wait((waiting, self.task), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self.task.result()
            raise EOFError("the stream has ended")
        return v2.TelemetryCommand.FromString(waiting.result())

    async def close(self) -> None:
        self.call.asked.put_nowait(None)
        await self.task

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Endpoint:
    """The endpoint of a broker on virtual time."""

    def __init__(self, virtual: Virtual) -> None:
        self.virtual = virtual
        self.broker = virtual.broker
        self.clock: ManualClock = virtual.clock
        self.services = self.broker.grpc.services
        self.methods = self.broker.grpc.methods

    def topic(self, name: str, type_: str = "", queues: int = 2, **more: Any) -> None:
        attributes = {"message.type": type_} if type_ else {}
        shape: dict[str, Any] = {"read_queue_nums": queues, "write_queue_nums": queues, "perm": 6} | more
        self.broker.topics.put(TopicConfig(topic_name=name, attributes=attributes, **shape))

    def group(self, name: str, **settings: Any) -> None:
        self.broker.groups.put(SubscriptionGroupConfig(group_name=name, **settings))

    def metadata(self, client: str = "client-1", **more: str) -> dict[str, str]:
        return METADATA | {"x-mq-client-id": client} | {name.replace("_", "-"): text for name, text in more.items()}

    def stream(self, client: str = "client-1", **more: str) -> Stream:
        return Stream(self, self.metadata(client, **more))

    async def ask(self, method: str, request: Any, client: str = "client-1", timeout_s: float | None = 3.0) -> Any:
        """The answer of a unary call."""
        found = self.methods[PATH + method]
        assert found.unary is not None
        deadline = None if timeout_s is None else self.clock.monotonic() + timeout_s
        call = TestCall(method, self.metadata(client), deadline)
        answer = found.unary(call, request.SerializeToString())
        data = answer if isinstance(answer, bytes) else await answer
        return getattr(v2, method + "Response").FromString(data)

    def begin(
        self, request: Any, client: str = "client-1", timeout_s: float | None = 30.0, method: str = "ReceiveMessage"
    ) -> tuple[TestCall, asyncio.Future[None]]:
        """A call that streams its answer."""
        found = self.methods[PATH + method]
        assert found.stream is not None
        deadline = None if timeout_s is None else self.clock.monotonic() + timeout_s
        call = TestCall(method, self.metadata(client), deadline)
        call.asked.put_nowait(request.SerializeToString())
        call.asked.put_nowait(None)
        return call, asyncio.ensure_future(found.stream(call))

    async def producer(self, *topics: str, client: str = "client-1") -> Stream:
        stream = self.stream(client)
        publishing = v2.Publishing(topics=[v2.Resource(name=topic) for topic in topics])
        settings = v2.Settings(client_type=v2.ClientType.PRODUCER, publishing=publishing)
        await stream.say(settings=settings)
        await stream.heard()
        return stream

    async def consumer(self, group: str, *topics: str, client: str = "client-1", push: bool = False) -> Stream:
        stream = self.stream(client)
        wanted = v2.FilterExpression(type=v2.FilterType.TAG, expression="*")
        subscription = v2.Subscription(
            group=v2.Resource(name=group),
            subscriptions=[v2.SubscriptionEntry(topic=v2.Resource(name=topic), expression=wanted) for topic in topics],
        )
        kind = v2.ClientType.PUSH_CONSUMER if push else v2.ClientType.SIMPLE_CONSUMER
        settings = v2.Settings(client_type=kind, subscription=subscription)
        settings.request_timeout.FromSeconds(3)
        await stream.say(settings=settings)
        await stream.heard()
        return stream

    async def send(self, topic: str, body: bytes = b"hello", client: str = "client-1", **system: Any) -> Any:
        return await self.ask("SendMessage", v2.SendMessageRequest(messages=[message(topic, body, **system)]), client)


_numbers = iter(range(1, 1 << 30))


def message(topic: str, body: bytes = b"hello", properties: dict[str, str] | None = None, **system: Any) -> v2.Message:
    known = {"message_id": f"01020000000001{next(_numbers):020X}"} | system
    return v2.Message(
        topic=v2.Resource(name=topic),
        user_properties=properties or {},
        system_properties=v2.SystemProperties(**known),
        body=body,
    )


@asynccontextmanager
async def endpoint(folder: Path, **settings: Any) -> AsyncIterator[Endpoint]:
    async with virtual_broker(folder, **settings) as virtual:
        yield Endpoint(virtual)
