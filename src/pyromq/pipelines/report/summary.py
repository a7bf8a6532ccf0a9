"""What a pipeline has to say at its end: facts, tables and plots, as text for people and as JSON for programs.

Names are those of the JSON, which has plain values: `oldestMs` is a time in milliseconds since 1970. `in_words` has
them for people. `html_page.py` makes a page of it; `metrics` are of this run alone, the rest may be about all that
there is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...model.foreign_text import one_line
from ...text import tables
from ...text.colour import STRONG, Painted
from ...text.screen import wrapped
from ...text.values import heading, shown


@dataclass(frozen=True, slots=True)
class Table:
    """`lengths` names the columns whose milliseconds are lengths of time; other names that end in Ms are times."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    lengths: Collection[str] = ()

    def in_words(self) -> list[dict[str, Any]]:
        return [dict(in_words(*pair, is_length=pair[0] in self.lengths) for pair in row.items()) for row in self.rows]


def in_words(name: str, value: Any, *, is_length: bool = False) -> tuple[str, Any]:
    """Return heading and value for people: times in UTC, which the heading says, spans and sizes with their unit."""
    if is_length:
        return f"{heading(name)} ms", value
    if name.endswith("Ms"):
        return f"{heading(name)} (UTC)", None if value is None else utc(value)
    has_unit = name.endswith(("Seconds", "Bytes")) and value is not None
    return heading(name), shown(name, value) if has_unit else value


def utc(ms: int) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)
    return at.isoformat(sep=" ", timespec="milliseconds").removesuffix(".000")


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
            title = one_line(f"{self.pipeline}: {heading(table.title)}")
            if not table.rows:
                yield f"{title}: nothing"
                continue
            yield Painted((title, STRONG))
            yield from tables.indented(table.in_words(), width)
            yield ""
        pairs = (in_words(*pair) for pair in self.facts.items())
        facts = ", ".join(f"{name} {shown(name, value)}" for name, value in pairs)
        yield from wrapped(one_line(f"{self.pipeline}: {facts}"), width, "  ")
