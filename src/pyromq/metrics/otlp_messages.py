"""OpenTelemetry's messages of a metrics export (opentelemetry-proto 1.x), as bytes of protobuf. Pure.

Numbers are the wire's: never change one. Written by hand: the few messages that an export needs have forty fields, and
a package of their classes would be loaded by every daemon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from .families import Family, HistogramValue, Labels, MetricKind, Value
from .points import Points

PATH = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_DELTA, _CUMULATIVE = 1, 2
_GAUGE, _SUM, _HISTOGRAM = 5, 7, 9  # fields of Metric
_FIELDS = {MetricKind.GAUGE: _GAUGE, MetricKind.COUNTER: _SUM, MetricKind.HISTOGRAM: _HISTOGRAM}


def requests(
    points: Points, resource: Iterable[tuple[str, str]], scope: str, most_points: int, *, in_delta: bool
) -> Iterator[bytes]:
    """Yield ExportMetricsServiceRequest messages, each with so many data points at most."""
    head = _bytes(1, b"".join(_bytes(1, _attribute(name, text)) for name, text in resource))
    named = _bytes(1, _bytes(1, scope.encode()))
    metrics, room = b"", most_points
    for family in points.families:
        at = 0
        while at < len(family.series):
            part = family.series[at : at + room]
            metrics += _bytes(2, _metric(family._replace(series=part), points, in_delta))
            at += len(part)
            room -= len(part)
            if not room:
                yield _bytes(1, head + _bytes(2, named + metrics))
                metrics, room = b"", most_points
    if metrics:
        yield _bytes(1, head + _bytes(2, named + metrics))


def _metric(family: Family, points: Points, in_delta: bool) -> bytes:
    write = _histogram_point if family.kind is MetricKind.HISTOGRAM else _number_point
    data = b"".join(_bytes(1, write(labels, value, points, family)) for labels, value in family.series)
    if family.kind is not MetricKind.GAUGE:
        data += _number(2, _DELTA if in_delta else _CUMULATIVE)
    if family.kind is MetricKind.COUNTER:
        data += _number(3, 1)  # it only grows
    texts = _bytes(1, family.bare_name.encode()) + _bytes(2, family.help.encode()) + _bytes(3, family.unit.encode())
    return texts + _bytes(_FIELDS[family.kind], data)


def _number_point(labels: Labels, value: Value, points: Points, family: Family) -> bytes:
    assert not isinstance(value, HistogramValue)
    times = _fixed(2, points.begun_ns) + _fixed(3, points.now_ns)
    return times + _double(4, value) + _attributes(7, labels)


def _histogram_point(labels: Labels, value: Value, points: Points, family: Family) -> bytes:
    assert isinstance(value, HistogramValue)
    times = _fixed(2, points.begun_ns) + _fixed(3, points.now_ns)
    counts = struct.pack(f"<{len(value.counts)}Q", *value.counts)
    bounds = struct.pack(f"<{len(family.bounds)}d", *family.bounds)
    sums = _fixed(4, sum(value.counts)) + _double(5, value.total)
    return times + sums + _bytes(6, counts) + _bytes(7, bounds) + _attributes(9, labels)


def _attributes(field: int, labels: Labels) -> bytes:
    return b"".join([_bytes(field, _attribute(name, text)) for name, text in labels.pairs])


def _attribute(name: str, text: str) -> bytes:
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, text.encode(errors="replace")))


# --- protobuf's wire format ---------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _fixed(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)
