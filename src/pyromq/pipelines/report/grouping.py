"""Rows by group: grouped by Spark, brought to the driver, and folded there into fewer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, functions

Fold = Callable[[Iterable[Any]], Any]
COUNTS = ("count(*) AS messages", "sum(storeSize) AS bytes")
AGES = ("unix_millis(min(storeTimestamp)) AS oldestMs", "unix_millis(max(storeTimestamp)) AS newestMs")


def grouped(frame: DataFrame, by: Sequence[Column | str], *sums: str) -> DataFrame:
    """Return a row for each value of the columns `by`; `sums` are Spark SQL with a name, such as those of `COUNTS`."""
    return frame.groupBy(*by).agg(*map(functions.expr, sums))


def least(values: Iterable[Any]) -> Any:
    """Return the least of those that are known."""
    return min((each for each in values if each is not None), default=None)


def most(values: Iterable[Any]) -> Any:
    return max((each for each in values if each is not None), default=None)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def folded(rows: Iterable[Mapping[str, Any]], by: Sequence[str], how: Mapping[str, Fold]) -> list[dict[str, Any]]:
    """Return one row for each value of the columns `by`, sorted; `how` says what becomes of each other column."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        dict(zip(by, key, strict=True)) | {name: fold(row[name] for row in groups[key]) for name, fold in how.items()}
        for key in sorted(groups)
    ]
