"""What a pipeline has to say at its end: facts, tables and plots, as text for people and as JSON for programs.

`html_page.py` makes a page of it; `metrics` are of this run alone, the rest may be about all that there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...model.foreign_text import one_line


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

    def as_text(self, width: int) -> str:
        from io import StringIO

        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        out = StringIO()
        console = Console(file=out, width=width, force_terminal=False)  # no colours: all of it is escaped later
        for table in self.tables:
            if not table.rows:
                console.print(Text(one_line(f"{self.pipeline}: {table.title}: nothing")))
                continue
            title = Text(one_line(f"{self.pipeline}: {table.title}"))
            drawn = RichTable(title=title, title_justify="left", show_edge=False)
            names = list(table.rows[0])
            for name in names:
                drawn.add_column(Text(one_line(name)), no_wrap=True)
            for row in table.rows:
                # As they are: what stands in brackets is no markup of rich's.
                drawn.add_row(*(Text("" if row[name] is None else one_line(str(row[name]))) for name in names))
            console.print(drawn)
        facts = one_line(", ".join(f"{name} {value}" for name, value in self.facts.items()))
        return f"{out.getvalue()}{self.pipeline}: {facts}\n"
