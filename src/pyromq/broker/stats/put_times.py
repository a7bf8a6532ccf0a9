"""How long puts into the log take: the longest, how they are spread, and percentiles of the last minute.

Told by `intake.py` once per burst, asked by the runtime info (request 28), which shows it in Java's words. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

# Upper ends of the steps in which percentiles are told, in ms: fine where it is fast, coarse where it is slow.
_PERCENTILE_BOUNDS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
_HISTOGRAM = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)  # ends of the steps below
_HISTOGRAM_NAMES = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)


_ENDS = tuple(accumulate(width for width, count in _PERCENTILE_BOUNDS for _ in range(count)))


class PutTimes:
    """Event loop only. `end_minute` is to be called once a minute: what is shown is the minute that ended last."""

    def __init__(self) -> None:
        self.longest_ms = 0
        self.failed = 0  # messages that the store did not take
        self.sources: list[Callable[[], None]] = []  # each tells what it has counted for itself, by `note`
        self._counts = [0] * (len(_ENDS) + 1)
        self._histogram = [0] * len(_HISTOGRAM_NAMES)
        self._last_counts: Sequence[int] = ()
        self._last_histogram: Sequence[int] = ()

    def note(self, seconds: float, messages: int) -> None:
        ms = int(seconds * 1000)
        if ms == 0:  # nearly always
            self._counts[0] += messages
            self._histogram[0] += messages
            return
        self._counts[bisect_left(_ENDS, ms)] += messages
        self._histogram[next((at for at, end in enumerate(_HISTOGRAM) if ms < end), len(_HISTOGRAM))] += messages
        self.longest_ms = max(self.longest_ms, ms)

    def end_minute(self) -> None:
        for settle in self.sources:
            settle()
        self._last_counts, self._counts = self._counts, [0] * len(self._counts)
        self._last_histogram, self._histogram = self._histogram, [0] * len(self._histogram)

    def histogram_text(self) -> str:
        """Return `[<=0ms]:12 [0~10ms]:3 ... `; Java says null as long as no minute has ended."""
        if not self._last_histogram:
            return "null"
        return "".join(f"{name}:{count} " for name, count in zip(_HISTOGRAM_NAMES, self._last_histogram, strict=True))

    def percentile_text(self, share: float) -> str:
        """Return milliseconds within which this share of the last minute's puts ended, evenly spread within a step."""
        wanted, passed, begin = int(sum(self._last_counts) * share), 0, 0
        for end, count in zip(_ENDS, self._last_counts, strict=False):
            if wanted <= passed + count:
                inside = (end - begin) * (wanted - passed) / count if count else 0.0
                return f"{begin + inside:.2f}"
            passed, begin = passed + count, end
        return f"{begin if self._last_counts else 0:.2f}"
