"""The families of one scrape, in a fixed order, and what the scrape itself costs.

Everything is read from counters and tables that exist anyway; nothing is kept between two scrapes but labels.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from ...metrics.families import Collect, Family
from ...metrics.limiting import LEFT_OUT
from .meter import Meter, by_label, with_unit


@dataclass(slots=True, eq=False, repr=False)
class BrokerMetrics:
    """Event loop only. `left_out` has, by family, what a limit cut off in the scrape before."""

    meter: Meter
    parts: Sequence[Collect]
    monotonic: Callable[[], float]
    left_out: Callable[[], Mapping[str, int]]

    async def collect(self) -> AsyncIterator[Family]:
        begun, series, cut = self.monotonic(), 0, dict(self.left_out())
        for part in self.parts:
            async for family in part():
                series += len(family.series)
                yield family
        meter = self.meter
        yield meter.gauge("pyromq_scrape_series", "Series of this scrape, before any limit.", series)
        text = "What this scrape took, others' turns in between included."
        yield with_unit(meter.gauge("pyromq_scrape_seconds", text, self.monotonic() - begun), "seconds")
        text = "Series that the limit put into one row, in the scrape before."
        yield meter.gauge(LEFT_OUT, text, by_label(meter, "metric", cut))
        meter.labels.end_scrape()
