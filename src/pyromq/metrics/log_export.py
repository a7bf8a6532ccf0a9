"""Metrics in the log: one line of JSON for each metric and export, in OpenTelemetry's words (exporter LOG)."""

from __future__ import annotations

from typing import Any

import msgspec

from .. import logs
from ..ambient import Clock
from .families import Family, HistogramValue, Labels, MetricKind, Value
from .points import Course, Limited, Points
from .settings import MetricsSettings

log = logs.get("pyromq.metrics")


class LogExport:
    """Event loop only."""

    def __init__(self, settings: MetricsSettings, limited: Limited, clock: Clock) -> None:
        self._every_s = settings.metric_logging_exporter_interval_in_mills / 1000
        self._course = Course(limited, clock, in_delta=settings.metrics_in_delta)
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._every_s)
            await self._export()

    async def close(self) -> None:
        await self._export()

    async def _export(self) -> None:
        points = await self._course.next()
        for family in points.families:
            if family.series:
                log.info("metrics", otlp=as_json(family, points, in_delta=self._course.in_delta))
                await self._clock.sleep(0)


def as_json(family: Family, points: Points, *, in_delta: bool) -> str:
    """Return a metric as OTLP has it in JSON."""
    data: dict[str, Any] = {"dataPoints": [_point(labels, value, points, family) for labels, value in family.series]}
    if family.kind is not MetricKind.GAUGE:
        data["aggregationTemporality"] = 1 if in_delta else 2
    if family.kind is MetricKind.COUNTER:
        data["isMonotonic"] = True
    names = {MetricKind.COUNTER: "sum", MetricKind.GAUGE: "gauge", MetricKind.HISTOGRAM: "histogram"}
    found = {"name": family.bare_name, "description": family.help, "unit": family.unit, names[family.kind]: data}
    return msgspec.json.encode(found).decode()


def _point(labels: Labels, value: Value, points: Points, family: Family) -> dict[str, Any]:
    point: dict[str, Any] = {
        "attributes": [{"key": name, "value": {"stringValue": text}} for name, text in labels.pairs],
        "startTimeUnixNano": str(points.begun_ns),
        "timeUnixNano": str(points.now_ns),
    }
    if isinstance(value, HistogramValue):
        return point | {
            "count": str(sum(value.counts)),
            "sum": value.total,
            "bucketCounts": [str(count) for count in value.counts],
            "explicitBounds": list(family.bounds),
        }
    return point | {"asDouble": 1.0 * value}
