"""Messages of PostgreSQL's `pgoutput` in, changes of rows out, each with its position. Owns no socket.

Transactions come whole, in the order of their commits. The position behind a change is the end of the last whole
transaction, the place of this one's commit, and how many of its changes were read. A server counts them the same way
each time it reads its log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from ..changes import CaptureError, IsWanted, Position, RowChange, SourceTable
from ..events import UNAVAILABLE, Op, Row
from .lsn import lsn_of, lsn_text
from .values import Read

_BEGIN = struct.Struct("!QqI")  # place of the commit, microseconds since 2000, transaction
_COMMIT = struct.Struct("!BQQq")  # flags, place of the commit, its end, microseconds
_MILLENNIUM_MS = 946_684_800_000
_NUMBER = struct.Struct("!I")
_COLUMN = struct.Struct("!Ii")
_NOTHING: tuple[RowChange, ...] = ()


class RelationColumn(msgspec.Struct, frozen=True):
    """One column of a relation: its type by number, and what stands in brackets behind that."""

    name: str
    type_number: int
    modifier: int
    is_identity: bool


class Relation(msgspec.Struct, frozen=True):
    """A table as the rows that follow are written. `identity` is d, i, f or n: what the log has of a row before."""

    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(slots=True)
class KnownTable:
    """A relation with what the catalog says of it."""

    table: SourceTable
    columns: list[tuple[str, Read, bool]]  # name, reader, and whether it is in the replica identity


@dataclass(slots=True)
class LogReader:
    """One pass over a log from a position on."""

    database: str
    done: int
    skip: Position  # within the transaction that was under way: what was read of it before
    is_wanted: IsWanted
    know: Callable[[Relation], KnownTable]
    describe: Row
    ts_ms: int = 0
    inside: int = 0  # where the transaction under way commits; 0: none is
    _event: int = 0
    _transaction: int = 0
    _skipped: int = 0
    _tables: dict[int, KnownTable | None] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        if not self._event:
            return Position(done=lsn_text(self.done))
        return Position(done=lsn_text(self.done), inside=lsn_text(self.inside), event=self._event)

    def feed(self, message: bytes, lsn: int) -> Sequence[RowChange]:
        """Return the changes of one message, over which the position moves."""
        kind = message[:1]
        if kind == b"I":
            return self._inserted(message, lsn)
        if kind == b"U":
            return self._updated(message, lsn)
        if kind == b"D":
            return self._deleted(message, lsn)
        if kind == b"B":
            self._begin(message)
        elif kind == b"C":
            self.done, self.inside, self._event = _COMMIT.unpack_from(message, 1)[2], 0, 0
        elif kind == b"R":
            self._note(message)
        elif kind == b"T":
            return self._truncated(message, lsn)
        return _NOTHING

    def _begin(self, message: bytes) -> None:
        self.inside, micros, self._transaction = _BEGIN.unpack_from(message, 1)
        self.ts_ms, self._event = micros // 1000 + _MILLENNIUM_MS, 0
        self._skipped = self.skip.event if self.skip.inside and lsn_of(self.skip.inside) == self.inside else 0

    def _note(self, message: bytes) -> None:
        number, relation = read_relation(message)
        full = ".".join((self.database, relation.schema, relation.name))
        self._tables[number] = self.know(relation) if self.is_wanted(full) else None

    def _of(self, message: bytes) -> KnownTable | None:
        """Count a change. Return its table; None if it was read before, or nobody wants it."""
        self._event += 1
        (number,) = _NUMBER.unpack_from(message, 1)
        if number not in self._tables:
            raise CaptureError(f"PostgreSQL sent a row of table number {number} without its description")
        return self._tables[number] if self._event > self._skipped else None

    def _inserted(self, message: bytes, lsn: int) -> Sequence[RowChange]:
        if (known := self._of(message)) is None:
            return _NOTHING
        after, _ = read_row(message, 6, known, None)
        return (self._change(known.table, Op.CREATE, None, after, lsn, len(message)),)

    def _updated(self, message: bytes, lsn: int) -> Sequence[RowChange]:
        if (known := self._of(message)) is None:
            return _NOTHING
        before, at = None, 6
        if (form := message[5:6]) != b"N":
            before, at = read_row(message, 6, known, None, is_key_alone=form == b"K")
            at += 1
        after, _ = read_row(message, at, known, before)
        return (self._change(known.table, Op.UPDATE, before, after, lsn, len(message)),)

    def _deleted(self, message: bytes, lsn: int) -> Sequence[RowChange]:
        if (known := self._of(message)) is None:
            return _NOTHING
        before, _ = read_row(message, 6, known, None, is_key_alone=message[5:6] == b"K")
        return (self._change(known.table, Op.DELETE, before, None, lsn, len(message)),)

    def _truncated(self, message: bytes, lsn: int) -> Sequence[RowChange]:
        self._event += 1
        if self._event <= self._skipped:
            return _NOTHING
        count = _NUMBER.unpack_from(message, 1)[0]
        found = (self._tables.get(number) for (number,) in _NUMBER.iter_unpack(message[6 : 6 + 4 * count]))
        return [self._change(known.table, Op.TRUNCATE, None, None, lsn, len(message)) for known in found if known]

    def _change(
        self, table: SourceTable, op: Op, before: Row | None, after: Row | None, lsn: int, size: int
    ) -> RowChange:
        source = self.describe | {
            "ts_ms": self.ts_ms, "schema": table.schema, "table": table.name, "txId": self._transaction, "lsn": lsn,
            "sequence": f'["{self.done}","{lsn}"]',
        }  # fmt: skip
        transaction = f"{self._transaction}:{self.inside}"  # numbers of transactions come round again
        return RowChange(table, op, before, after, self.ts_ms, source, transaction, size, lsn_text(lsn))


def read_relation(message: bytes) -> tuple[int, Relation]:
    """Return the number of a relation, and the relation."""
    (number,) = _NUMBER.unpack_from(message, 1)
    schema, at = _name(message, 5)
    name, at = _name(message, at)
    identity, count, at = chr(message[at]), int.from_bytes(message[at + 1 : at + 3], "big"), at + 3
    columns = []
    for _ in range(count):
        is_identity = bool(message[at] & 1)
        column, at = _name(message, at + 1)
        type_number, modifier = _COLUMN.unpack_from(message, at)
        columns.append(RelationColumn(column, type_number, modifier, is_identity))
        at += _COLUMN.size
    return number, Relation(schema or "pg_catalog", name, identity, tuple(columns))


def _name(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode("utf-8"), end + 1


def read_row(
    message: bytes, at: int, known: KnownTable, before: Row | None, *, is_key_alone: bool = False
) -> tuple[Row, int]:
    """Return the row that stands in a message, and where it ends.

    A long value that did not change is not in the log: it is that of the row before, if that is there. Of a row with
    its key alone the log says NULL for all other columns, which is not what they are.
    """
    count = int.from_bytes(message[at : at + 2], "big")
    at += 2
    row: Row = {}
    if count != len(known.columns):
        raise CaptureError(
            f"PostgreSQL sent a row of {count} columns for table {known.table.full_name}, which has "
            f"{len(known.columns)}"
        )
    for name, read, is_identity in known.columns:
        form = message[at]
        at += 1
        if form == 0x74:  # t: text
            end = at + 4 + int.from_bytes(message[at : at + 4], "big")
            try:
                row[name] = read(message[at + 4 : end].decode())
            except UnicodeDecodeError as fault:
                raise CaptureError(
                    f"column {name} of table {known.table.full_name} has text that is no UTF-8 ({fault}): the "
                    "database's encoding is SQL_ASCII"
                ) from None
            at = end
        elif form == 0x6E:  # n: NULL
            row[name] = UNAVAILABLE if is_key_alone and not is_identity else None
        else:  # u: unchanged
            row[name] = UNAVAILABLE if before is None else before.get(name, UNAVAILABLE)
    return row, at
