"""The event that describes a table before its rows: types, names, keys and character sets, as of that change.

It carries names only where `binlog_row_metadata=FULL`. With it no statement has to be parsed to follow changes of
schemas, and rows are always read by the columns that they were written with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import repeat

from ..changes import CaptureError
from .cursor import Cursor


class ColumnType(IntEnum):
    """The types that logs name columns by."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_T = ColumnType
NUMERIC = {_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.NEWDECIMAL, _T.FLOAT, _T.DOUBLE, _T.YEAR}
CHARACTER = {_T.STRING, _T.VAR_STRING, _T.VARCHAR, _T.BLOB, _T.GEOMETRY}  # what MariaDB lists a collation of
MYSQL_CHARACTER = CHARACTER - {_T.GEOMETRY}
_TWO_BYTES = {_T.STRING, _T.VAR_STRING, _T.VARCHAR, _T.BIT, _T.NEWDECIMAL}
_ONE_BYTE = {
    _T.BLOB, _T.DOUBLE, _T.FLOAT, _T.GEOMETRY, _T.JSON, _T.TIMESTAMP2, _T.DATETIME2, _T.TIME2,
}  # fmt: skip
BINARY = 63  # the collation of what is no text


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """One column of a table map. `detail` is its length, precision or number of digits, by the type."""

    type: ColumnType
    detail: int
    name: str = ""
    is_unsigned: bool = False
    collation: int = BINARY
    choices: tuple[bytes, ...] = ()  # of ENUM and SET, in the column's character set
    is_key: bool = False
    special: str = ""  # uuid, inet4 or inet6, which the log has as BINARY
    shape: str = ""  # of GEOMETRY: point and so on


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table as its rows are written. Equal bytes give equal tables, so that a repeated event costs a comparison."""

    database: str
    name: str
    columns: tuple[LoggedColumn, ...] = field(repr=False)

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


def table_id(body: bytes) -> int:
    return int.from_bytes(body[:6], "little")


def table_name(body: bytes) -> str:
    cursor = Cursor(body, at=8)
    return f"{_name(cursor)}.{_name(cursor)}"


def read_table_map(body: bytes, special: Mapping[str, str], character: Set[ColumnType] = CHARACTER) -> TableMap:
    """Return what the event says. CaptureError for a type that is not known.

    `special`: types that it does not tell; `character`: types that have a collation in it.
    """
    cursor = Cursor(body, at=8)
    database, name = _name(cursor), _name(cursor)
    codes = cursor.take(cursor.packed())
    details = Cursor(cursor.text())
    kinds = [_kind(code, details, f"{database}.{name}", place) for place, code in enumerate(codes, 1)]
    cursor.take((len(codes) + 7) // 8)  # which columns may be NULL: rows say which are
    return TableMap(database, name, tuple(_columns(kinds, dict(_fields(cursor)), special, character)))


def _name(cursor: Cursor) -> str:
    found = cursor.take(cursor.number(1)).decode("utf-8")
    cursor.take(1)
    return found


def _kind(code: int, details: Cursor, table: str, place: int) -> tuple[ColumnType, int]:
    try:
        kind = ColumnType(code)
    except ValueError:
        raise CaptureError(
            f"column {place} of table {table} has the type {code} in the binlog, which is not known: leave the table "
            f"out (exclude = [{table!r}]), or change the column. Nothing behind it was read"
        ) from None
    if kind in _TWO_BYTES:
        low, high = details.take(2)
        return _text_kind(low, high) if kind is _T.STRING else (kind, low | high << 8)
    return kind, details.number(1) if kind in _ONE_BYTE else 0


def _text_kind(low: int, high: int) -> tuple[ColumnType, int]:
    """Return the type of a STRING, which may be an ENUM or a SET, and whose length may take two bits of the type."""
    if low & 0x30 != 0x30:
        return ColumnType(low | 0x30), high | ((low & 0x30) ^ 0x30) << 4
    return ColumnType(low), high


def _fields(cursor: Cursor) -> Iterator[tuple[int, bytes]]:
    while cursor.left > 0:
        yield cursor.number(1), cursor.text()


_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SETS, _ENUMS, _SHAPES = 1, 2, 3, 4, 5, 6, 7
_SHAPE_NAMES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip
_KEY, _KEY_WITH_PREFIX, _CHOICE_DEFAULT_CHARSET, _CHOICE_CHARSET = 8, 9, 10, 11


def _columns(
    kinds: Sequence[tuple[ColumnType, int]],
    given: Mapping[int, bytes],
    special: Mapping[str, str],
    character: Set[ColumnType],
) -> Iterator[LoggedColumn]:
    names = [each.decode("utf-8") for each in _texts(given.get(_NAMES, b""))] or [""] * len(kinds)
    keys = set(_numbers(given.get(_KEY, b""))) | set(_numbers(given.get(_KEY_WITH_PREFIX, b""))[::2])
    unsigned = _bits(given.get(_SIGNEDNESS, b""))
    texts = _collations(given.get(_DEFAULT_CHARSET), given.get(_COLUMN_CHARSET))
    chosen = _collations(given.get(_CHOICE_DEFAULT_CHARSET), given.get(_CHOICE_CHARSET))
    enums, sets = _choices(given.get(_ENUMS, b"")), _choices(given.get(_SETS, b""))
    shapes = (_SHAPE_NAMES[each] for each in _numbers(given.get(_SHAPES, b"")) if each < len(_SHAPE_NAMES))
    for place, (kind, detail) in enumerate(kinds):
        collation = BINARY
        choices: tuple[bytes, ...] = ()
        name = names[place]
        if kind in character:
            collation = next(texts)
        elif kind in (_T.ENUM, _T.SET):
            collation = next(chosen)
            choices = next(enums if kind is _T.ENUM else sets, ())
        is_unsigned = kind in NUMERIC and next(unsigned, False)
        shape = next(shapes, "") if kind is _T.GEOMETRY else ""
        yield LoggedColumn(
            kind, detail, name, is_unsigned, collation, choices, place in keys, special.get(name, ""), shape
        )


def _texts(value: bytes) -> list[bytes]:
    cursor, found = Cursor(value), []
    while cursor.left > 0:
        found.append(cursor.text())
    return found


def _numbers(value: bytes) -> list[int]:
    cursor, found = Cursor(value), []
    while cursor.left > 0:
        found.append(cursor.packed())
    return found


def _bits(value: bytes) -> Iterator[bool]:
    """Yield the bits of each byte, the highest first."""
    return (bool(byte >> shift & 1) for byte in value for shift in range(7, -1, -1))


def _collations(default: bytes | None, each: bytes | None) -> Iterator[int]:
    """Yield the collations of the columns with text: one by one, or one for all but those that are named."""
    if each is not None:
        yield from _numbers(each)
    elif default is not None:
        first, *pairs = _numbers(default)
        others = dict(zip(pairs[::2], pairs[1::2], strict=True))
        place = 0
        while True:
            yield others.get(place, first)
            place += 1
    yield from repeat(BINARY)


def _choices(value: bytes) -> Iterator[tuple[bytes, ...]]:
    cursor = Cursor(value)
    while cursor.left > 0:
        yield tuple(cursor.text() for _ in range(cursor.packed()))


def unnamed(columns: Iterable[LoggedColumn]) -> bool:
    """Return whether the log leaves out names: binlog_row_metadata is not FULL."""
    return any(not column.name for column in columns)
