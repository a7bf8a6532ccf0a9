"""A gateway before a cluster on real sockets, called without HTTP/2."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.audit.log import AuditLog
from pyromq.gateway.config import GatewayConfig
from pyromq.gateway.server import Gateway
from pyromq.protocol.grpc import v2
from pyromq.proxy.methods import PATH
from tests.proxy.calling import METADATA, TestCall, listened, message


class Caller:
    """One client of a gateway."""

    def __init__(self, gateway: Gateway, client_id: str = "client-1") -> None:
        self.gateway = gateway
        self.metadata = METADATA | {"x-mq-client-id": client_id}
        self._stream: asyncio.Future[None] | None = None
        self.call: TestCall

    async def ask(self, method: str, request: Any) -> Any:
        found = self.gateway.methods[PATH + method]
        assert found.unary is not None
        answer = found.unary(TestCall(method, self.metadata), request.SerializeToString())
        data = answer if isinstance(answer, bytes) else await answer
        return getattr(v2, method + "Response").FromString(data)

    async def say(self, settings: v2.Settings) -> v2.TelemetryCommand:
        if self._stream is None:
            self.call = TestCall("Telemetry", self.metadata)
            method = self.gateway.methods[PATH + "Telemetry"]
            self._stream = asyncio.ensure_future(listened(method.listener, self.call))
        self.call.asked.put_nowait(v2.TelemetryCommand(settings=settings).SerializeToString())
        return await self.heard()

    async def heard(self) -> v2.TelemetryCommand:
        return v2.TelemetryCommand.FromString(await self.call.answered.get())

    def begin(self, topic: str, group: str, invisible_s: int = 30) -> tuple[TestCall, asyncio.Future[None]]:
        request = v2.ReceiveMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=topic), id=-1),
            filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
            batch_size=32,
        )
        request.invisible_duration.FromSeconds(invisible_s)
        request.long_polling_timeout.FromSeconds(5)
        call = TestCall("ReceiveMessage", self.metadata)
        call.asked.put_nowait(request.SerializeToString())
        call.asked.put_nowait(None)
        method = self.gateway.methods[call.method]
        assert method.stream is not None
        return call, asyncio.ensure_future(method.stream(call))

    async def receive(self, topic: str, group: str, invisible_s: int = 30) -> list[v2.Message]:
        call, task = self.begin(topic, group, invisible_s)
        await task
        found = []
        while not call.answered.empty():
            found.append(v2.ReceiveMessageResponse.FromString(call.answered.get_nowait()))
        assert found[0].status.code in (v2.Code.OK, v2.Code.MESSAGE_NOT_FOUND), found[0].status.message
        return [one.message for one in found if one.HasField("message")]

    async def ack(self, group: str, *messages: v2.Message) -> int:
        entries = [
            v2.AckMessageEntry(
                message_id=one.system_properties.message_id, receipt_handle=one.system_properties.receipt_handle
            )
            for one in messages
        ]
        request = v2.AckMessageRequest(group=v2.Resource(name=group), topic=messages[0].topic, entries=entries)
        return int((await self.ask("AckMessage", request)).status.code)

    async def send(self, topic: str, body: bytes, **system: Any) -> Any:
        return await self.ask("SendMessage", v2.SendMessageRequest(messages=[message(topic, body, **system)]))

    async def close(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)


@asynccontextmanager
async def gateway_before(*name_servers: str, audit: AuditLog | None = None, **settings: Any) -> AsyncIterator[Gateway]:
    shape: dict[str, Any] = {"namesrv_addr": name_servers, "listen_port": 0, "remoting_listen_port": 0}
    shape["grpc_shutdown_time_seconds"] = 1
    gateway = Gateway(GatewayConfig(**(shape | settings)), clock=SystemClock(), rng=random.Random(5), audit=audit)
    await gateway.listen()
    try:
        yield gateway
    finally:
        await gateway.stop()


def consumer(group: str, topic: str) -> v2.Settings:
    wanted = v2.FilterExpression(type=v2.FilterType.TAG, expression="*")
    entry = v2.SubscriptionEntry(topic=v2.Resource(name=topic), expression=wanted)
    subscription = v2.Subscription(group=v2.Resource(name=group), subscriptions=[entry])
    return v2.Settings(client_type=v2.ClientType.SIMPLE_CONSUMER, subscription=subscription)


def producer(*topics: str) -> v2.Settings:
    publishing = v2.Publishing(topics=[v2.Resource(name=topic) for topic in topics])
    return v2.Settings(client_type=v2.ClientType.PRODUCER, publishing=publishing)
