"""Many messages to a request: packed up to a size, several requests under way, one that is too large halved.

`send_many` sends values that are there already; `AutoBatcher` collects what single sends bring within a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ...ambient import Clock, Timer
from ...model.codes import ResponseCode
from ..arguments import check_count, check_length
from ..connect.background import Tasks
from ..errors import Refused
from ..tracing.traced_work import MessageSender
from .order_lanes import OrderLanes
from .outgoing import BatchItem, pack_batch
from .sending import QueueChoice, SendResult

T = TypeVar("T")

BATCH_BYTES = 1 << 20
BATCH_MESSAGES = 1024
BATCHES_IN_FLIGHT = 4
MOST_BATCH_MESSAGES = 32_767  # what our broker takes unless it is told otherwise (maxMessagesInBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """A producer with this gathers sends of one topic: at most so long, so many, so much in one request."""

    linger_s: float = 0.005
    max_bytes: int = BATCH_BYTES
    max_messages: int = BATCH_MESSAGES

    def __post_init__(self) -> None:
        check_length("linger_s", self.linger_s, may_be_zero=True, example=0.005)
        check_count("max_bytes", self.max_bytes, example=BATCH_BYTES)
        check_count("max_messages", self.max_messages, MOST_BATCH_MESSAGES)


class BatchSends:
    """Event loop only."""

    def __init__(self, sender: MessageSender) -> None:
        self._sender = sender

    async def send_all(self, topic: str, batches: Iterable[list[BatchItem]]) -> list[SendResult]:
        """`batches` may be a generator of millions: only as many are made as are under way. Results in their order."""
        tasks: list[asyncio.Task[list[SendResult]]] = []
        running: set[asyncio.Task[list[SendResult]]] = set()
        try:
            for batch in batches:
                if len(running) >= BATCHES_IN_FLIGHT:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    if any(task.exception() for task in done):
                        break
                task = asyncio.get_running_loop().create_task(self.send(topic, batch, None))
                tasks.append(task)
                running.add(task)
        finally:
            await asyncio.gather(*tasks, return_exceptions=True)
        return [result for task in tasks for result in task.result()]

    async def send(self, topic: str, batch: list[BatchItem], choose: QueueChoice | None) -> list[SendResult]:
        try:
            return await self._sender.send(pack_batch(topic, batch), choose)
        except Refused as fault:
            if not _is_too_large(fault) or len(batch) == 1:
                raise
        half = len(batch) // 2
        first = await self.send(topic, batch[:half], choose)
        return first + await self.send(topic, batch[half:], choose)


def batches_of(items: Iterable[BatchItem], most_bytes: int, most_messages: int) -> Iterable[list[BatchItem]]:
    batch: list[BatchItem] = []
    size = 0
    for item in items:
        if batch and (size + item.bytes > most_bytes or len(batch) == most_messages):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.bytes
    if batch:
        yield batch


def _is_too_large(fault: Refused) -> bool:
    return fault.code == ResponseCode.MESSAGE_ILLEGAL


async def gathered_parts(values: AsyncIterable[T], linger_s: float, most: int, clock: Clock) -> AsyncIterator[list[T]]:
    """Yield what comes within `linger_s` of the first, up to `most`."""
    rest = aiter(values)
    coming: asyncio.Future[T] | None = asyncio.ensure_future(anext(rest))
    try:
        while coming is not None:
            part: list[T] = []
            try:
                part.append(await coming)
                coming = asyncio.ensure_future(anext(rest))
                async with clock.timeout(linger_s):
                    while len(part) < most:
                        part.append(await asyncio.shield(coming))
                        coming = asyncio.ensure_future(anext(rest))
            except TimeoutError:
                pass
            except StopAsyncIteration:
                coming = None
            if part:
                yield part
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


# --- gathering ------------------------------------------------------------------------------------------------------

# These messages of one topic and order key in one request.
SendBatch = Callable[[str, str | None, list[BatchItem]], Awaitable[list[SendResult]]]


class _OpenBatch:
    """What waits for its request, with those who wait for its results."""

    __slots__ = ("bytes", "items", "timer")

    def __init__(self, timer: Timer) -> None:
        self.items: list[tuple[BatchItem, asyncio.Future[SendResult]]] = []
        self.bytes = 0
        self.timer = timer


class AutoBatcher:
    """Event loop only. Each send gets a result, or an error, of its own."""

    def __init__(self, clock: Clock, batching: Batching, most_bytes: int, lanes: OrderLanes, send: SendBatch) -> None:
        self._clock = clock
        self._batching = batching
        self._most_bytes = min(batching.max_bytes, most_bytes)
        self._lanes = lanes
        self._send = send
        self._gathered: dict[tuple[str, str | None], _OpenBatch] = {}
        self._tasks = Tasks(lambda fault: None)  # those who wait have been told

    def add(self, topic: str, order_key: str | None, item: BatchItem) -> asyncio.Future[SendResult]:
        key = (topic, order_key)
        gathered = self._gathered.get(key)
        if gathered is not None and gathered.bytes + item.bytes > self._most_bytes:
            self._flush(key)
            gathered = None
        if gathered is None:
            timer = self._clock.call_later(self._batching.linger_s, self._flush, key)
            gathered = self._gathered[key] = _OpenBatch(timer)
        result: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        gathered.items.append((item, result))
        gathered.bytes += item.bytes
        if len(gathered.items) >= self._batching.max_messages or gathered.bytes >= self._most_bytes:
            self._flush(key)
        return result

    def flush(self) -> None:
        """Nobody should wait longer."""
        for key in tuple(self._gathered):
            self._flush(key)

    def _flush(self, key: tuple[str, str | None]) -> None:
        gathered = self._gathered.pop(key)
        gathered.timer.cancel()
        self._tasks.start(self._deliver(*key, gathered.items))

    async def _deliver(
        self, topic: str, order_key: str | None, items: list[tuple[BatchItem, asyncio.Future[SendResult]]]
    ) -> None:
        """Batches of one key wait for one another; tasks begin in the order in which they were made."""
        if order_key is None:
            await self._settle(topic, order_key, items)
        else:
            async with self._lanes.turn(topic, order_key):
                await self._settle(topic, order_key, items)

    async def _settle(
        self, topic: str, order_key: str | None, items: list[tuple[BatchItem, asyncio.Future[SendResult]]]
    ) -> None:
        try:
            results = await self._send(topic, order_key, [item for item, _ in items])
        except Exception as fault:
            if len(items) > 1 and isinstance(fault, Refused) and _is_too_large(fault):
                half = len(items) // 2
                await self._settle(topic, order_key, items[:half])
                await self._settle(topic, order_key, items[half:])
                return
            for _, waiting in items:
                if not waiting.done():  # its sender may have given up
                    waiting.set_exception(fault)
        else:
            for (_, waiting), result in zip(items, results, strict=True):
                if not waiting.done():
                    waiting.set_result(result)
