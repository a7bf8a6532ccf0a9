"""Families as Prometheus reads them: text 0.0.4, or OpenMetrics 1.0 for those who accept it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from .families import Family, HistogramValue, Labels, MetricKind, Value

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END = "# EOF\n"
LINES_AT_ONCE = 1_000  # between two chances for others to run

_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def written(family: Family, is_open: bool = False) -> Iterator[str]:
    """Yield the text of a family in parts of so many lines; nothing for one without series."""
    if not family.series:
        return
    yield _head(family, is_open)
    most = LINES_AT_ONCE if family.kind is not MetricKind.HISTOGRAM else LINES_AT_ONCE // (len(family.bounds) + 3)
    for start in range(0, len(family.series), most):
        part = family.series[start : start + most]
        if family.kind is MetricKind.HISTOGRAM:
            yield "".join([_histogram(family, labels, value) for labels, value in part])
        else:
            yield _plain(family.name, part)


def _head(family: Family, is_open: bool) -> str:
    name, text = family.name, family.help.translate(_ESCAPED)
    if is_open:
        text = text.replace('"', '\\"')
        if family.kind is MetricKind.COUNTER:
            name = name.removesuffix("_total")
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind.value}\n"


def _plain(name: str, part: Sequence[tuple[Labels, Value]]) -> str:
    begin = name + "{"
    return "".join([f"{begin}{labels.text}}} {value}\n" for labels, value in part])


def _histogram(family: Family, labels: Labels, value: Value) -> str:
    assert isinstance(value, HistogramValue)
    name, text = family.name, labels.text
    comma = "," if text else ""
    sums = list(accumulate(value.counts))
    lines = [
        f'{name}_bucket{{{text}{comma}le="{bound:.1f}"}} {count}\n'
        if bound == round(bound)
        else f'{name}_bucket{{{text}{comma}le="{bound!r}"}} {count}\n'
        for bound, count in zip(family.bounds, sums, strict=False)
    ]
    lines.append(f'{name}_bucket{{{text}{comma}le="+Inf"}} {sums[-1]}\n')
    lines.append(f"{name}_sum{{{text}}} {value.total}\n{name}_count{{{text}}} {sums[-1]}\n")
    return "".join(lines)
