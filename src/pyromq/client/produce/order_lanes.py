"""Sends of one order key wait here for one another, those of other keys do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _OrderLane:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class OrderLanes:
    """Event loop only. A lane is there as long as somebody uses it."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], _OrderLane] = {}

    @asynccontextmanager
    async def turn(self, topic: str, order_key: str) -> AsyncIterator[None]:
        """Wait for the sends of this key that came before. asyncio's lock is fair: a retry is never overtaken."""
        key = (topic, order_key)
        lane = self._lanes.setdefault(key, _OrderLane())
        lane.users += 1
        try:
            async with lane.lock:
                yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[key]
