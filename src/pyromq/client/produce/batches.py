"""Many messages to a request: packed up to a size, several requests under way, one that is too large halved.

`send_many` sends values that are there already; `auto_batcher.py` collects what single sends bring within a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self, TypeVar

from ...ambient import Clock
from ...model.codes import ResponseCode
from ..arguments import check_count, check_kind, check_length
from ..errors import BadMessage, Error, Refused
from .outgoing import BatchItem, Outgoing, pack_batch
from .queue_choice import QueueChoice
from .sending import Sender, SendResult

T = TypeVar("T")

BATCH_BYTES = 1 << 20
BATCH_MESSAGES = 1024
BATCHES_IN_FLIGHT = 4
MOST_BATCH_MESSAGES = 32_767  # what our broker takes unless it is told otherwise (maxMessagesInBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """A producer with this gathers sends of one topic for at most so long, so many and so much in one request."""

    linger_s: float = 0.005
    max_bytes: int = BATCH_BYTES
    max_messages: int = BATCH_MESSAGES

    def __post_init__(self) -> None:
        check_length("linger_s", self.linger_s, may_be_zero=True, example=0.005)
        check_count("max_bytes", self.max_bytes, example=BATCH_BYTES)
        check_count("max_messages", self.max_messages, MOST_BATCH_MESSAGES)


class RequestsOfOneCall:
    """A sender for one `send_many`. What leaves its block says `may_be_stored` if any request may be, not only its own.

    Who sends all values again after an error would have those twice.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._may_be_stored = False

    async def send(self, message: Outgoing, choose: QueueChoice | None = None) -> list[SendResult]:
        try:
            results = await self._sender.send(message, choose)
        except Error as fault:
            self._may_be_stored |= fault.may_be_stored
            raise
        self._may_be_stored = True
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, Error):
            fault.may_be_stored |= self._may_be_stored


async def send_batches(sender: RequestsOfOneCall, topic: str, batches: Iterable[list[BatchItem]]) -> list[SendResult]:
    """Return the results in the order of the batches. A generator may give millions: few are made ahead."""
    tasks: list[asyncio.Task[list[SendResult]]] = []
    running: set[asyncio.Task[list[SendResult]]] = set()
    try:
        for batch in batches:
            if len(running) >= BATCHES_IN_FLIGHT:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                if any(task.exception() for task in done):
                    break
            task = asyncio.get_running_loop().create_task(send_batch(sender, topic, batch))
            tasks.append(task)
            running.add(task)
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)
    return [result for task in tasks for result in task.result()]


async def send_batch(
    sender: RequestsOfOneCall, topic: str, batch: list[BatchItem], choose: QueueChoice | None = None
) -> list[SendResult]:
    """Send one batch, in halves if its broker finds it too large."""
    try:
        return await sender.send(pack_batch(topic, batch), choose)
    except Refused as fault:
        if not is_too_large(fault) or len(batch) == 1:
            raise
    half = len(batch) // 2
    first = await send_batch(sender, topic, batch[:half], choose)
    return first + await send_batch(sender, topic, batch[half:], choose)


def batches_of(items: Iterable[BatchItem], most_bytes: int) -> Iterable[list[BatchItem]]:
    """Yield the items in batches that keep both limits; an item that is larger is alone."""
    batch: list[BatchItem] = []
    size = 0
    for item in items:
        if batch and (size + item.bytes > most_bytes or len(batch) == BATCH_MESSAGES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.bytes
    if batch:
        yield batch


def is_too_large(fault: Exception) -> bool:
    return isinstance(fault, Refused) and fault.code == ResponseCode.MESSAGE_ILLEGAL


def check_values(values: object) -> None:
    """Raise BadMessage for one text or dict: Python would iterate over its letters or keys, and nobody means that."""
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
        hint = "Write [value], or use send"
        raise BadMessage(f"send_many takes a list of values, and not one {type(values).__name__}", hint=hint)
    if not isinstance(values, AsyncIterable):
        check_kind("what to send", values, Iterable, "a list of values", error=BadMessage)


def parts_of(values: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(values)
    while part := list(islice(rest, BATCH_MESSAGES)):
        yield part


async def gathered_parts(values: AsyncIterable[T], linger_s: float, clock: Clock) -> AsyncIterator[list[T]]:
    """Yield what comes within `linger_s` of the first value, up to a batch."""
    rest = aiter(values)
    coming: asyncio.Future[T] | None = asyncio.ensure_future(anext(rest))
    try:
        while coming is not None:
            part: list[T] = []
            try:
                part.append(await coming)
                coming = asyncio.ensure_future(anext(rest))
                async with clock.timeout(linger_s):
                    while len(part) < BATCH_MESSAGES:
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
