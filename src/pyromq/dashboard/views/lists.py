"""What every list has: a filter by name, an order, pages of at most so many rows. Pure.

Unknown figures stand last, whichever way the list is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from ...text.similar import closest
from ..watch.figures import FigureTotal, Unknown

R = TypeVar("R")
MOST_ROWS = 500
SHOWN_ROWS = 100


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`sort` is a column, with `-` before it from the greatest down. `page` counts from 1."""

    q: str = ""
    sort: str = ""
    page: int = 1
    per_page: int = SHOWN_ROWS
    system: bool = False  # also what belongs to the system
    fields: str = ""  # of the API: only these columns, with commas between


class Listing(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """One page of a list. `total`: how many there are without the filter."""

    rows: list[R]
    found: int
    total: int
    page: int
    pages: int
    sort: str


def listing(rows: Sequence[R], wanted: ListQuery, name: Callable[[R], str], default: str) -> Listing[R]:
    """Return the wanted page of the rows. A column that no row has sorts as the default does."""
    words = wanted.q.lower().split()
    found = [row for row in rows if all(word in name(row).lower() for word in words)]
    sort = wanted.sort or default
    column = sort.removeprefix("-")
    if rows and not hasattr(rows[0], column):
        sort, column = default, default.removeprefix("-")
    found.sort(key=name)
    found.sort(key=lambda row: _weight(getattr(row, column)), reverse=sort.startswith("-"))
    found.sort(key=lambda row: _is_unknown(getattr(row, column)))
    most = min(max(1, wanted.per_page), MOST_ROWS)
    pages = max(1, -(-len(found) // most))
    page = min(max(1, wanted.page), pages)
    shown = found[(page - 1) * most : page * most]
    return Listing(rows=shown, found=len(found), total=len(rows), page=page, pages=pages, sort=sort)


def with_fields(found: Any, fields: str) -> Any:
    """Return what a view found with only these columns in its rows. msgspec.ValidationError: there is no such one."""
    wanted, plain = [name.strip() for name in fields.split(",") if name.strip()], msgspec.to_builtins(found)
    for part in (plain, *plain.values()):
        if isinstance(part, dict) and isinstance(part.get("rows"), list):
            rows: list[dict[str, Any]] = part["rows"]
            known = rows[0].keys() if rows else wanted
            if unknown := [name for name in wanted if name not in known]:
                raise msgspec.ValidationError(f"fields: no column {unknown[0]!r}.{closest(unknown[0], known)}")
            part["rows"] = [{name: row[name] for name in wanted} for row in rows]
    return plain


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, FigureTotal) else value


def _is_unknown(value: Any) -> bool:
    bare = _bare(value)
    return bare is None or isinstance(bare, Unknown)


def _weight(value: Any) -> Any:
    bare = _bare(value)
    if bare is None or isinstance(bare, Unknown):
        return (0, "")
    if isinstance(bare, str):
        return (0, bare.lower())
    return (len(bare), "") if isinstance(bare, list | tuple) else (bare, "")
