"""What all families of a broker are made with: its labels, slices of the loop's time, and short ways to write one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...metrics.families import Family, Labels, LabelSets, Merge, MetricKind, Value, words
from ...model import names
from ...transport.turns.slices import Slices

Series = list[tuple[Labels, Value]]
_SUFFIXES = {"milliseconds": "_milliseconds", "bytes": "_bytes", "seconds": "_seconds"}


@dataclass(frozen=True, slots=True)
class Meter:
    labels: LabelSets
    slices: Slices
    cluster: str
    broker: str

    def counter(self, name: str, text: str, series: Series) -> Family:
        return Family(name, MetricKind.COUNTER, text, series)

    def gauge(self, name: str, text: str, series: Series | Value, merge: Merge = Merge.SUM) -> Family:
        """Return a gauge of many series, or of one without labels of its own."""
        found = series if isinstance(series, list) else [(self.labels.of(), series)]
        return Family(name, MetricKind.GAUGE, text, found, merge=merge)

    def is_system_topic(self, topic: str) -> bool:
        return names.is_system_topic(topic) or topic in (self.broker, self.cluster)

    def is_system(self, topic: str, group: str) -> str:
        return words(self.is_system_topic(topic) or names.is_system_group(group))


def with_unit(family: Family, unit: str, bare: str | None = None) -> Family:
    """Return the family with its unit; over OTLP its name is without it, unless `bare` names another."""
    return family._replace(unit=unit, bare=family.name.removesuffix(_SUFFIXES[unit]) if bare is None else bare)


def by_label(meter: Meter, label: str, values: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> Series:
    """Return a series for each value of one label."""
    pairs = values.items() if isinstance(values, Mapping) else values
    return [(meter.labels.of(**{label: name}), value) for name, value in pairs]
