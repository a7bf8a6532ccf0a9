"""Rights that are taken back under full load of gRPC calls: none that begins after the answer to that passes.

As `test_taken_back.py` has it of remoting, by either kernel: several clients send, receive and acknowledge with many
calls at once. A call is judged by what held when it began; those under way while something changes are not judged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Collection, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.proxy.methods import PATH
from tests.access.loads import PASSWORD, USER
from tests.access.test_grpc_calls import credentials
from tests.access.test_taken_back import CHANGES, ROUNDS, SETTINGS, changing
from tests.interop.peers import ours
from tests.kernel.grpc_client import ack, wish

CHANNELS, SENDERS, RECEIVERS = 3, 4, 4  # and calls at once of each channel
SEEN = 100  # calls of each kind that began after a change
SERVED = {
    "SendMessage": (Code.OK,),
    "ReceiveMessage": (Code.OK, Code.MESSAGE_NOT_FOUND),
    "AckMessage": (Code.OK,),
}
KINDS = {"SendMessage": "send", "ReceiveMessage": "pop", "AckMessage": "pop"}
MESSAGE = v2.SystemProperties(message_id="01", message_type=v2.MessageType.NORMAL)
SENT = v2.SendMessageRequest(messages=[v2.Message(topic=v2.Resource(name="T"), body=b"x", system_properties=MESSAGE)])


class Calls:
    """All calls of one user, and what held when each began: the number of the change before it, 0 during one."""

    def __init__(self) -> None:
        self.losing: Collection[str] = ()  # which calls the right is for
        self.change, self.is_taken = 0, False
        self._last = 0
        self.seen: Counter[str] = Counter()  # since that change
        self.refused: Counter[str] = Counter()  # in all
        self.wrong: list[tuple[str, bool, int]] = []
        self._came = asyncio.Event()

    def pause(self) -> None:
        self.change = 0

    async def enough(self, is_taken: bool, names: Collection[str]) -> None:
        """A change was answered: wait until enough calls of each kind that began after it are answered."""
        self._last = self.change = self._last + 1
        self.is_taken, self.seen = is_taken, Counter()
        while any(self.seen[name] < SEEN for name in names):
            self._came.clear()
            await self._came.wait()

    async def judged(self, name: str, call: Awaitable[int]) -> int:
        began, is_taken = self.change, self.is_taken
        code = await call
        self.refused[name] += code == Code.UNAUTHORIZED
        if began and began == self.change:
            self.seen[name] += 1
            if code not in ((Code.UNAUTHORIZED,) if is_taken and name in self.losing else SERVED[name]):
                self.wrong.append((name, is_taken, code))
        self._came.set()
        return code


class Client:
    """One connection. Its receives are of group G, and it knows what it has to acknowledge."""

    def __init__(self, channel: grpc.aio.Channel, name: str, calls: Calls) -> None:
        self._channel, self._name, self._calls = channel, name, calls
        self._stock: list[v2.Message] = []

    def _metadata(self) -> list[tuple[str, str]]:
        own = [("x-mq-client-id", self._name), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.0.0")]
        return [*own, *credentials(USER, PASSWORD)]

    async def _ask(self, name: str, request: Any) -> Any:
        method = self._channel.unary_unary(PATH + name, request_serializer=lambda one: one.SerializeToString())
        return await method(request, metadata=self._metadata(), timeout=60)

    async def say_settings(self) -> Any:
        """Return the telemetry stream, which stays open."""
        wanted = v2.SubscriptionEntry(
            topic=v2.Resource(name="T"), expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*")
        )
        consuming = v2.Subscription(group=v2.Resource(name="G"), subscriptions=[wanted])
        settings = v2.Settings(client_type=v2.ClientType.SIMPLE_CONSUMER, subscription=consuming)
        settings.request_timeout.FromSeconds(3)
        method = self._channel.stream_stream(PATH + "Telemetry", request_serializer=lambda one: one.SerializeToString())
        stream = method(metadata=self._metadata())
        await stream.write(v2.TelemetryCommand(settings=settings))
        assert v2.TelemetryCommand.FromString(await stream.read()).status.code == Code.OK
        return stream

    async def send(self) -> int:
        answer = v2.SendMessageResponse.FromString(await self._ask("SendMessage", SENT))
        return int(answer.status.code)

    async def receive(self) -> int:
        method = self._channel.unary_stream(
            PATH + "ReceiveMessage", request_serializer=lambda one: one.SerializeToString()
        )
        request = wish("T", "G", invisible_s=600, batch_size=2)
        parts = [
            v2.ReceiveMessageResponse.FromString(raw)
            async for raw in method(request, metadata=self._metadata(), timeout=60)
        ]
        self._stock += [one.message for one in parts if one.HasField("message")]
        return next(int(one.status.code) for one in parts if one.HasField("status"))

    async def acknowledge(self, message: v2.Message) -> int:
        answer = v2.AckMessageResponse.FromString(await self._ask("AckMessage", ack(message, group="G")))
        if answer.status.code == Code.UNAUTHORIZED:
            self._stock.append(message)
        return int(answer.status.code)

    async def keep_sending(self) -> None:
        while True:
            await self._calls.judged("SendMessage", self.send())

    async def keep_receiving(self) -> None:
        while True:
            await self._calls.judged("ReceiveMessage", self.receive())
            if self._stock:
                await self._calls.judged("AckMessage", self.acknowledge(self._stock.pop(0)))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ours.Broker]:
    started = ours.Broker(tmp_path_factory.mktemp("broker"), [], SETTINGS)
    try:
        yield started
    finally:
        started.kill()


@pytest.mark.parametrize("name", CHANGES)
async def test_no_call_passes_that_began_after_the_answer(broker: ours.Broker, name: str) -> None:
    change, calls = CHANGES[name], Calls()
    calls.losing = [each for each, kind in KINDS.items() if kind in change.of]
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(changing(broker.address))
        clients = [
            Client(await stack.enter_async_context(grpc.aio.insecure_channel(broker.address)), f"me-{each}", calls)
            for each in range(CHANNELS)
        ]
        streams = [await one.say_settings() for one in clients]
        workers = [
            asyncio.ensure_future(keep())
            for one in clients
            for keep in (*[one.keep_sending] * SENDERS, *[one.keep_receiving] * RECEIVERS)
        ]
        try:
            await met(calls.enough(False, SERVED), workers)
            for _ in range(ROUNDS):
                for is_taken, how in ((True, change.taken), (False, change.given)):
                    calls.pause()
                    await ask(*how)
                    await met(calls.enough(is_taken, SERVED), workers)
                    assert calls.wrong == []
        finally:
            for each in (*workers, *streams):
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    assert {each for each, count in calls.refused.items() if count} == set(calls.losing)


async def met(condition: Coroutine[Any, Any, None], workers: Collection[asyncio.Future[None]]) -> None:
    """Wait for it; a worker that ends, ends the test with what it raised."""
    waiting = asyncio.ensure_future(condition)
    await asyncio.wait((waiting, *workers), return_when=asyncio.FIRST_COMPLETED)
    for one in workers:
        if one.done():
            waiting.cancel()
            one.result()
    await waiting
