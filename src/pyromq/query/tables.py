"""A topic as an Arrow dataset: what DuckDB scans. It asks for columns and hands over the filter; pieces come from a
source, and are read one after the other while DuckDB takes their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from ..errors import ConfigError, PyroError
from .columns import NAMES, SCHEMA, TEXT, as_named, source_columns
from .filters import FilterNode, columns_of, parsed
from .sources import RowSource


@dataclass(slots=True)
class TopicScan:
    """What one scan of a topic read: of how much its pieces are, the rows that came, and those that passed."""

    topic: str
    columns: list[str]
    unit: str
    planned: int = 0
    done: int = 0
    rows: int = 0
    passed: int = 0
    not_text: int = 0


@dataclass(slots=True)
class Scans:
    """All scans of a connection, in their order, and the error that ended one: DuckDB makes a text of its own of it."""

    scans: list[TopicScan] = field(default_factory=list)
    fault: PyroError | OSError | None = None
    report: Callable[[int, int], None] = lambda done, whole: None

    def progress(self) -> None:
        self.report(sum(each.done for each in self.scans), sum(each.planned for each in self.scans))


class TopicTable(pyarrow.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """One topic. DuckDB knows datasets by their class, and calls `scanner` once for each scan."""

    def __init__(self, source: RowSource, topic: str, scans: Scans) -> None:
        self._source = source
        self._topic = topic
        self._scans = scans

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> TopicScanner:
        """Return a scan of these columns (all without names) of the rows that pass the Arrow expression."""
        return TopicScanner(self._source, self._topic, check_names(columns), filter, self._scans)


def check_names(columns: Sequence[str] | None) -> list[str]:
    """Return the columns. ConfigError for one that a topic does not have."""
    for name in columns or ():
        if name not in NAMES:
            near = get_close_matches(name, NAMES, 1, 0.4)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"topics have no column {name!r}. {hint}The columns are {', '.join(NAMES)}")
    return NAMES if columns is None else list(columns)


class TopicScanner:
    """One scan, not begun. `to_reader` is what DuckDB takes the rows from."""

    def __init__(self, source: RowSource, topic: str, names: list[str], filter: Any, scans: Scans) -> None:
        self._source = source
        self._topic = topic
        self._names = names
        self._filter = filter
        self._scans = scans
        self.projected_schema = pa.schema([SCHEMA.field(name) for name in names])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read()
        except (PyroError, OSError) as fault:
            self._scans.fault = fault
            raise

    def _read(self) -> Iterator[pa.RecordBatch]:
        tree = FilterNode("none") if self._filter is None else parsed(self._filter)
        needed = self._needed(tree)
        scan = TopicScan(self._topic, needed, self._source.unit)
        self._scans.scans.append(scan)
        pieces = self._source.pieces(self._topic, tree)
        scan.planned = sum(piece.size for piece in pieces)
        schema = pa.schema([_field(name) for name in source_columns(needed)])
        for piece in pieces:
            for batch in piece.read(schema):
                yield self._chosen(batch, needed, scan)
            scan.done += piece.size
            self._scans.progress()

    def _needed(self, tree: FilterNode) -> list[str]:
        """Return the columns of the result and of the filter; at least one, which says how many rows there are."""
        of_filter = columns_of(tree)
        if of_filter is None:
            return NAMES
        names = [name for name in NAMES if name in of_filter or name in self._names]
        return names or ["queueId"]

    def _chosen(self, batch: pa.RecordBatch, needed: list[str], scan: TopicScan) -> pa.RecordBatch:
        made = as_named(batch, needed)
        scan.rows += made.num_rows
        if self._filter is not None:
            made = made.filter(self._filter)
        scan.passed += made.num_rows
        if TEXT in needed:
            scan.not_text += made.column(TEXT).null_count
        return made.select(self._names)


def _field(name: str) -> pa.Field:
    from ..spark.schema import COLUMNS

    return pa.field(name, COLUMNS[name][0])
