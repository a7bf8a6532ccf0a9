"""What a pipeline has to say at its end: facts, tables and plots, as text for people and as JSON for programs.

`html_page.py` makes a page of it; `metrics` are of this run alone, the rest may be about all that there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...model.foreign_text import one_line
from ...text import tables
from ...text.colour import STRONG, Painted
from ...text.screen import wrapped


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Plot:
    """`bars`: a bar per label. `lines`: a line per series over the labels, in their order. Missing values are gaps.
    `unit` says what the values are, `across` what the labels are."""

    title: str
    kind: str
    unit: str
    across: str
    series: Mapping[str, Mapping[str, float]]


def series_of(points: Iterable[tuple[str, str, float]]) -> dict[str, dict[str, float]]:
    """Return the series of a plot, made of points with series, label and value, in their order."""
    found: dict[str, dict[str, float]] = {}
    for name, label, value in points:
        found.setdefault(name, {})[label] = value
    return found


@dataclass(frozen=True, slots=True)
class Metrics:
    """What this run took: messages, and their bytes in the log (or of their bodies, where only those are known)."""

    rows: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Metrics:
        """Add up the rows' columns `messages` and `bytes`."""
        sums = [(row["messages"], row.get("bytes") or 0) for row in rows]
        return cls(sum(count for count, _ in sums), sum(size for _, size in sums))


@dataclass(frozen=True, slots=True)
class Summary:
    pipeline: str
    facts: Mapping[str, Any]
    tables: Sequence[Table] = field(default_factory=tuple)
    plots: Sequence[Plot] = field(default_factory=tuple)
    metrics: Metrics = Metrics()

    def __post_init__(self) -> None:
        """Check the names: in JSON facts and tables stand side by side."""
        both = {"pipeline", *self.facts} & {table.title for table in self.tables}
        if both:
            raise ValueError(f"{self.pipeline}: {sorted(both)} are names of facts and of tables")

    def as_json(self) -> str:
        members = {"pipeline": self.pipeline, **self.facts, **{table.title: list(table.rows) for table in self.tables}}
        return json.dumps(members, ensure_ascii=False, default=str)

    def as_text(self, width: int | None = None) -> str:
        """Return what `lines` yields as one text."""
        return "".join(f"{line}\n" for line in self.lines(width))

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield tables and facts for people; a table that is wider than `width` is a list. No word is broken."""
        for table in self.tables:
            title = one_line(f"{self.pipeline}: {table.title}")
            if not table.rows:
                yield f"{title}: nothing"
                continue
            yield Painted((title, STRONG))
            yield from tables.indented(table.rows, width)
            yield ""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        yield from wrapped(one_line(f"{self.pipeline}: {facts}"), width, "  ")
