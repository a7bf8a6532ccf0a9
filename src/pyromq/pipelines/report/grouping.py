"""Rows that Spark has grouped, put together into fewer groups on the driver. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Fold = Callable[[Iterable[Any]], Any]


def folded(rows: Iterable[Mapping[str, Any]], by: Sequence[str], how: Mapping[str, Fold]) -> list[dict[str, Any]]:
    """Return one row for each value of the columns `by`, sorted; `how` says what becomes of each other column."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        dict(zip(by, key, strict=True)) | {name: fold(row[name] for row in groups[key]) for name, fold in how.items()}
        for key in sorted(groups)
    ]
