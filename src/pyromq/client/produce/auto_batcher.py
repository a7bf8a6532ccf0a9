"""Sends that come at about the same time share a request: `producer(batching=...)`.

The producer adds messages; a batch leaves when it is full or its time is over. If a broker finds it too large, it
is sent in halves.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ...ambient import Clock, Timer
from ..connect.background import Tasks
from ..values import Codec
from .batches import Batching, is_too_large
from .outgoing import BatchItem, Packing, pack_batch, pack_item
from .queue_choice import OrderLanes, queue_choice
from .sending import Sender, SendResult

Waiting = list[tuple[BatchItem, asyncio.Future[SendResult]]]  # messages of a batch, with who waits for each


@dataclass(slots=True)
class _OpenBatch:
    timer: Timer
    items: Waiting = field(default_factory=list)
    bytes: int = 0


class AutoBatcher:
    """Event loop only. Each send gets a result, or an error, of its own."""

    def __init__(self, clock: Clock, batching: Batching, packing: Packing, lanes: OrderLanes, sender: Sender) -> None:
        self._clock = clock
        self._batching = batching
        self._packing = packing
        self._most_bytes = min(batching.max_bytes, packing.max_batch_bytes)
        self._lanes = lanes
        self._sender = sender
        self._gathered: dict[tuple[str, str | None], _OpenBatch] = {}
        self._tasks = Tasks(lambda fault: None)  # those who wait for a result get its error

    def add(
        self, topic: str, value: Any, properties: dict[str, str], order_key: str | None, codec: Codec
    ) -> asyncio.Future[SendResult] | None:
        """Return the result to come; None for a message that is better sent alone, since it is compressed.

        With an order key all messages go the same way, in order.
        """
        item = pack_item(topic, value, properties, self._packing, codec)
        compresses = self._packing.compression is not None and len(item.entry.body) > self._packing.compress_over_bytes
        if compresses and order_key is None:
            return None
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
        for key in tuple(self._gathered):
            self._flush(key)

    def _flush(self, key: tuple[str, str | None]) -> None:
        gathered = self._gathered.pop(key)
        gathered.timer.cancel()
        self._tasks.start(self._deliver(*key, gathered.items))

    async def _deliver(self, topic: str, order_key: str | None, items: Waiting) -> None:
        """Send in turn: batches of one key wait for one another. Tasks begin in the order in which they were made."""
        async with self._lanes.turn(topic, order_key):
            await self._settle(topic, order_key, items)

    async def _settle(self, topic: str, order_key: str | None, items: Waiting) -> None:
        try:
            batch = pack_batch(topic, [item for item, _ in items])
            results = await self._sender.send(batch, queue_choice(order_key))
        except Exception as fault:
            if len(items) > 1 and is_too_large(fault):
                half = len(items) // 2
                await self._settle(topic, order_key, items[:half])
                await self._settle(topic, order_key, items[half:])
                return
            for _, waiting in items:
                if not waiting.done():  # otherwise its sender has given up
                    waiting.set_exception(fault)
        else:
            for (_, waiting), result in zip(items, results, strict=True):
                if not waiting.done():
                    waiting.set_result(result)
