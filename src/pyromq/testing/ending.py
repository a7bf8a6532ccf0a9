"""A consumer of the fixtures: its stop comes to an end although the clock stands.

Made by the clients of `broker.py`, which is told of each stop and lets time go on where nobody else does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ..client.consume.push_consumer import PushConsumer

ToItsEnd = Callable[[Coroutine[Any, Any, None], str, float], Awaitable[None]]


class BroughtToEnd(PushConsumer):
    """Event loop only."""

    def __init__(self, to_its_end: ToItsEnd, *arguments: Any) -> None:
        """`to_its_end`: awaits a stop of this group, which gives handlers so many seconds of the clock."""
        super().__init__(*arguments)
        self._to_its_end = to_its_end

    async def stop(self) -> None:
        if self.is_open:
            await self._to_its_end(super().stop(), self.group, self.options.grace_s)
