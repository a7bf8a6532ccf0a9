"""Which offsets of a range to ask for, and how many requests to have under way. Numbers in, numbers out; no network.

Some brokers give few messages at once, Apache's 32, whatever is asked for. Where answers turn out to be alike, the next
ones are asked for before they came: each begins where the one before is expected to end. If an answer ends elsewhere,
those behind it are stale, and are asked for again from the right place: nothing is missed, and nothing comes twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

_MOST_AHEAD = 16  # requests under way at once
_AHEAD_BYTES = 1 << 20  # about, that may come without having been wanted yet: large answers need no others ahead


class PullSpan(NamedTuple):
    begin: int
    most: int

    @property
    def end(self) -> int:
        return self.begin + self.most


@dataclass(slots=True)
class PullWindow:
    """Offsets from `offset`, which grows, to `end`. `batch` is the most that one request asks for."""

    offset: int
    end: int
    batch: int
    depth: int = 1  # requests that may be under way
    _step: int = 0  # offsets that the last answer passed
    _asked: deque[tuple[int, PullSpan]] = field(default_factory=deque)
    _stale: set[int] = field(default_factory=set)

    def next_pulls(self) -> list[PullSpan]:
        """Return what to ask for now: nothing while half of what may be under way is. `sent` follows.

        So several requests leave together, which costs both sides less than one by one.
        """
        under_way = len(self._asked) + len(self._stale)
        if self._asked and under_way > self.depth // 2:
            return []
        pulls: list[PullSpan] = []
        begin = self._asked[-1][1].end if self._asked else self.offset
        while begin < self.end and (not pulls or under_way + len(pulls) < self.depth):
            most = min(self.batch if self.depth == 1 else self._step, self.end - begin)
            pulls.append(PullSpan(begin, most))
            begin += most
        return pulls

    def sent(self, numbers: Iterable[int], pulls: Iterable[PullSpan]) -> None:
        """Note the numbers by which the answers to these requests are known."""
        self._asked.extend(zip(numbers, pulls, strict=True))

    @property
    def awaited(self) -> int | None:
        """Return the number of the answer that is wanted now."""
        return self._asked[0][0] if self._asked else None

    def is_wanted_later(self, number: int) -> bool:
        """Return whether the answer came before its turn. One that is stale is forgotten here."""
        self._stale.discard(number)
        return any(number == each for each, _ in self._asked)

    def answered(self, following: int, size: int) -> None:
        """Note where to go on behind the answer that was wanted, and of how many bytes it was."""
        _, pull = self._asked.popleft()
        step = following - pull.begin
        deepest = max(1, min(_MOST_AHEAD, _AHEAD_BYTES // max(1, size)))
        self.depth = min(2 * self.depth, deepest) if 0 < step == self._step else 1
        self._step, self.offset = step, following
        if self._asked and self._asked[0][1].begin != following:
            self._stale |= {number for number, _ in self._asked}
            self._asked.clear()

    def lost(self) -> None:
        """Note that the connection is gone, and with it what was under way."""
        self._asked.clear()
        self._stale.clear()
        self.depth, self._step = 1, 0
