"""A source's tables against a sink: chunks by checksums, then the rows of chunks that differ, then those again.

Reads both sides whole once, and what differs a few times; changes neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from ...cdc.changes import SourceTable
from ...cdc.config import CdcConfig
from ...cdc.databases import open_rows
from ...cdc.key_ranges import TableRows
from ...cdc.rules import check_key_is_shown
from ...errors import PyroError
from ..report.grouping import rows_of
from ..report.summary import Metrics, Plot, Summary, Table, series_of
from ..run.streaming import Stopped, current
from .chunks import Chunks
from .reading import SourceSide, sums_of
from .settling import CHANGING, SettlePause, TableComparison, settled
from .views import ComparedTable, SinkView

VERDICTS = {"lost": "missing", "added": "added", "doubled": "doubled", "differing": "differing", CHANGING: CHANGING}
_LONGEST = 200  # characters of a row's columns in a table


class ComparisonPlan(NamedTuple):
    """The tables that are compared, with their chunks, and those that cannot be, with the cause."""

    tables: list[tuple[ComparedTable, Chunks]]
    refused: list[dict[str, str]]


def cdc_verify(
    spark: SparkSession,
    config: CdcConfig,
    view: SinkView,
    *,
    chunk_rows: int = 10_000,
    tasks: int = 4,
    settle_s: float = 10.0,
    looks: int = 5,
    examples: int = 20,
    dry_run: bool = False,
) -> Summary:
    """Compare the tables that a capture with this configuration wants with what the sink has of them."""
    view.check()
    with _opened(config) as rows:
        wanted = wanted_tables(config, rows, chunk_rows)
    if dry_run:
        plan = [{"table": table.name, "chunks": chunks.count} for table, chunks in wanted.tables]
        return Summary(
            "cdc-verify (dry run)", {"to": view.place}, _tables(("toDo", plan), ("notCompared", wanted.refused))
        )
    settling = SettlePause(settle_s, looks, _wait)
    by_table, odd, others = [], [], []
    for table, chunks in wanted.tables:
        look = TableComparison(spark, table, view, SourceSide(config, view, table), chunks, tasks)
        found = _compared(look, settling, examples)
        by_table.append(found.row)
        odd += found.examples
        others += [{"table": table.name, "columns": ", ".join(found.others)}] if found.others else []
    return _summary(view, wanted, by_table, odd[:examples], others)


def wanted_tables(config: CdcConfig, rows: TableRows, chunk_rows: int) -> ComparisonPlan:
    """Return what is to be compared. A table whose rows cannot be told apart in a sink is named, with the cause."""
    found = ComparisonPlan([], [])
    for name in rows.tables():
        table = rows.table(name)
        why = "it has no primary key: its rows cannot be told apart in a sink"
        why = (check_key_is_shown(config.rules, table) or "") if table.key_names else why
        if why:
            found.refused.append({"table": name, "cause": why})
            continue
        column = rows.range_column(name)
        bounds = None if column is None else tuple(rows.bounds(name, chunk_rows))
        found.tables.append((_compared_table(config, table, column), Chunks(bounds)))
    if not found.tables and not found.refused:
        raise PyroError(f"no table is captured that matches {', '.join(config.include)}: type pyromq cdc check")
    return found


def _compared_table(config: CdcConfig, table: SourceTable, column: str | None) -> ComparedTable:
    every: dict[str, Any] = dict.fromkeys(each.name for each in table.columns)
    shown = config.rules.shown(table, every) or {}
    key = tuple(table.key_names)
    return ComparedTable(table.full_name, tuple(shown), key, column or key[0])


class _Found(NamedTuple):
    row: dict[str, Any]
    examples: list[dict[str, Any]]
    others: list[str]


def _compared(look: TableComparison, settling: SettlePause, examples: int) -> _Found:
    left, right = look.both(range(look.chunks.count))
    (source, _), (sink, others) = sums_of(look.spark, left), sums_of(look.spark, right)
    odd = sorted(chunk for chunk in source.keys() | sink.keys() if source.get(chunk) != sink.get(chunk))
    row: dict[str, Any] = {
        "table": look.table.name,
        "rows": sum(each.rows for each in source.values()),
        "sinkRows": sum(each.rows for each in sink.values()),
        "chunks": look.chunks.count,
        "chunksRead": len(odd),
        "looks": 1,
        **dict.fromkeys(VERDICTS.values(), 0),
    }
    if not odd:
        return _Found(row, [], sorted(others))
    with settled(look, odd, settling) as (found, looks):
        row["looks"] += looks
        for verdict, count in found.groupBy("verdict").count().collect():
            row[VERDICTS[verdict]] = count
        shown = rows_of(found.orderBy("verdict", "id").limit(examples).select("verdict", "id", "leftRow", "rightRow"))
    return _Found(row, [_example(look.table.name, each) for each in shown], sorted(others))


def _example(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row that does not agree, with the columns that differ and what each side has in them."""
    left, right = (None if row[side] is None else msgspec.json.decode(row[side]) for side in ("leftRow", "rightRow"))
    names = sorted((left or {}).keys() | (right or {}).keys())
    odd = [name for name in names if (left or {}).get(name) != (right or {}).get(name)]
    is_there = left is not None and right is not None
    return {
        "verdict": VERDICTS[row["verdict"]],
        "table": table,
        "key": row["id"],
        "columns": ", ".join(odd) if is_there else "",
        "source": _words(left, odd if is_there else names),
        "sink": _words(right, odd if is_there else names),
    }


def _words(row: Mapping[str, Any] | None, names: Sequence[str]) -> str:
    """Return the values of these columns in words; nothing of a row that is not there."""
    if row is None:
        return "no row"
    words = ", ".join(f"{name}={row[name]}" if name in row else f"{name} is NULL or absent" for name in names)
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _summary(
    view: SinkView,
    wanted: ComparisonPlan,
    by_table: Sequence[Mapping[str, Any]],
    odd: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
) -> Summary:
    names = ("rows", "sinkRows", "chunks", "chunksRead", *VERDICTS.values())
    sums = {name: sum(row[name] for row in by_table) for name in names}
    agree = not any(sums[verdict] for verdict in VERDICTS.values())
    facts = {
        "tables": len(by_table),
        **sums,
        "notComparedTables": len(wanted.refused),
        "agree": agree,
        "sink": view.place,
    }
    points = (
        (verdict, row["table"], row[verdict]) for verdict in VERDICTS.values() for row in by_table if row[verdict]
    )
    plot = Plot("What does not agree, by table", "bars", "rows", "table", series_of(points))
    tables = _tables(
        ("byTable", by_table), ("examples", odd), ("onlyInTheSink", others), ("notCompared", wanted.refused)
    )
    return Summary("cdc-verify", facts, tables, [plot], Metrics(sums["rows"] + sums["sinkRows"]))


def _tables(*found: tuple[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    return [Table(title, rows) for title, rows in found if rows]


@contextmanager
def _opened(config: CdcConfig) -> Iterator[TableRows]:
    rows = open_rows(config)
    try:
        yield rows
    finally:
        rows.close()


def _wait(seconds: float) -> None:
    """Wait between two looks; Stopped once the job is to end."""
    stop = current()
    if stop.wait(seconds):
        raise Stopped("stopped")
