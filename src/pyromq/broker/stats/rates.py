"""Rates over 10 seconds, a minute and ten minutes, and totals by the day: the store's part of the runtime info.

Pure: `sample` is called once a second with the totals. The texts are in the form that mqadmin prints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

SPANS = (10, 60, 600)


class Totals(NamedTuple):
    """Since the start."""

    put: int = 0  # messages stored
    found: int = 0  # messages handed out
    missed: int = 0  # pulls that found nothing
    transferred: int = 0  # messages that went out in answers


class Rates:
    """Event loop only. One sample a second, ten minutes of them."""

    def __init__(self, now_ms: int) -> None:
        self._samples: deque[tuple[int, Totals]] = deque([(now_ms, Totals())], maxlen=SPANS[-1] + 1)

    def sample(self, now_ms: int, totals: Totals) -> None:
        self._samples.append((now_ms, totals))

    def text(self, pick: Callable[[Totals], int], complete: bool = False) -> str:
        """Return `10s 60s 600s`; a span that is not over yet is left out, its blank is not, unless `complete`."""
        rates = {span: self._over(span, pick) for span in SPANS}
        blanks = {span: "0.0" if complete or span == SPANS[0] else "" for span in SPANS}
        return " ".join(blanks[span] if rate is None else str(rate) for span, rate in rates.items())

    def _over(self, span: int, pick: Callable[[Totals], int]) -> float | None:
        if len(self._samples) <= span:
            return None
        (begin, first), (end, last) = self._samples[-1 - span], self._samples[-1]
        return (pick(last) - pick(first)) * 1000 / (end - begin) if end > begin else None


class ByDay:
    """A total at midnight of today and of yesterday. `midnight` tells the start of the day of a time."""

    def __init__(self, now_ms: int, midnight: Callable[[int], int]) -> None:
        self._midnight = midnight
        self._today = midnight(now_ms)
        self.yesterday_morning = 0
        self.today_morning = 0

    def sample(self, now_ms: int, total: int) -> None:
        if self._midnight(now_ms) > self._today:
            self._today = self._midnight(now_ms)
            self.yesterday_morning, self.today_morning = self.today_morning, total


def duration_text(seconds: int) -> str:
    """Return `[ 1 days, 2 hours, 3 minutes, 4 seconds ]`."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest} seconds ]"


def bytes_text(count: int) -> str:
    """Return `1.5 GiB`, as Java's tools write sizes."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 6)
    return f"{count / 1024**power:.1f} {'KMGTPE'[power - 1]}iB"
