"""Work that grows with a table, cut into slices: nobody waits for more than a few milliseconds while it is done.

Handlers of name server and broker go through their tables with it and encode what they found. Between two slices
everything else runs and may change the table: hand in a snapshot of its keys, and look each one up when it is its turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from heapq import merge
from typing import Any, TypeVar

from ...ambient import Clock
from ...protocol.bodies.body import body_parts
from ...protocol.json import Dialect

T = TypeVar("T")

SLICE_S = 0.002
_SORTED_AT_ONCE = 2_000  # names: about half a millisecond


@dataclass(slots=True, eq=False, repr=False)
class Slices:
    """One for all who share an event loop. Event loop only."""

    clock: Clock
    given_way: int = 0  # how often the loop was let on, for tests
    _ends: float = 0.0

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield every item; the loop is let on when a slice is over. A walk inside a walk goes on with its slice."""
        monotonic = self.clock.monotonic
        for item in items:
            if monotonic() >= self._ends:
                await self.give_way()
            yield item

    async def give_way(self) -> None:
        """Let everything else run that is ready, and begin the next slice."""
        self.given_way += 1
        await self.clock.sleep(0)
        self._ends = self.clock.monotonic() + SLICE_S

    async def give_way_if_due(self) -> None:
        """Let everything else run if the slice is over."""
        if self.clock.monotonic() >= self._ends:
            await self.give_way()

    async def encoded(self, body: Any, dialect: Dialect = Dialect.STANDARD) -> bytes:
        """Return what `encode_body` would. Nobody may change the body meanwhile."""
        return b"".join([part async for part in self.each(body_parts(body, dialect))])

    async def in_order(self, names: Collection[str]) -> list[str]:
        if len(names) <= _SORTED_AT_ONCE:
            return sorted(names)
        unsorted = list(names)
        starts = range(0, len(unsorted), _SORTED_AT_ONCE)
        runs = [sorted(unsorted[at : at + _SORTED_AT_ONCE]) async for at in self.each(starts)]
        return [name async for name in self.each(merge(*runs))]
