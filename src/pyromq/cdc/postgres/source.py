"""A PostgreSQL database as a source: the stream of a replication slot from a position on. Blocks."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ... import __version__
from ...ambient import pause
from ..address import ServerAddress
from ..changes import CaptureError, IsWanted, LogLost, Position, ReadBounds, RowChange, Slice, SourceTable
from ..events import Row
from .catalog import Catalog
from .connection import SLOT_IN_USE, PostgresConnection, ServerAway, ServerError, literal, quoted
from .lsn import lsn_of, lsn_text
from .pgoutput import KnownTable, LogReader, Relation
from .slots import SlotNames, check_slot

_DATA = struct.Struct("!cQQQ")  # w, place of the message, the same, the server's clock
_HEARTBEAT = struct.Struct("!cQQB")  # k, what the server has read, its clock, whether to answer
_CONFIRMED = struct.Struct("!cQQQQB")  # r, written, safe, applied, clock, whether to answer
_DATA_KIND = 0x77
_QUICK_S = 0.003  # for more, once there is something
_MOST_HEARTBEATS = 10  # before a position is returned that moves without changes
_PREREQUISITE, _UNDEFINED = "55000", "42704"
_HELD_TRIES, _HELD_PAUSE_S = 25, 0.2  # a slot is held for a moment by a connection that was just closed


class PostgresPlace(NamedTuple):
    """What a source and a snapshot of one capture share."""

    address: ServerAddress
    source: str
    names: SlotNames
    is_wanted: IsWanted


def describe(place: PostgresPlace, *, snapshot: str) -> Row:
    """Return what all events of a pass say of their source."""
    return {
        "version": __version__, "connector": "postgresql", "name": place.source, "snapshot": snapshot,
        "db": place.address.database,
    }  # fmt: skip


class PostgresSource:
    """The log of one database. After a lost connection the caller makes another source."""

    def __init__(self, place: PostgresPlace, start: Position, until: Position | None = None) -> None:
        self._place = place
        self._until = 0 if until is None else lsn_of(until.done)
        self._asking = PostgresConnection(place.address)
        try:
            check_slot(self._asking, place.names.slot, start.done)
            self._catalog = Catalog(self._asking)
            self._reader = LogReader(
                place.address.database, lsn_of(start.done), start, place.is_wanted, self._known,
                describe(place, snapshot="false"),
            )  # fmt: skip
            self._confirmed = self._reported = lsn_of(start.done)
            self._clock = 0  # the server's, as it said last
            self._stream = PostgresConnection(place.address, is_replication=True)
        except BaseException:
            self._asking.close()
            raise
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        slot, publication = self._place.names
        statement = (
            f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(self._reader.done)} "
            f"(proto_version '1', publication_names {literal(quoted(publication))})"
        )
        for tries_left in reversed(range(_HELD_TRIES)):
            try:
                self._stream.stream(statement)
                return
            except ServerAway as fault:
                if fault.code != SLOT_IN_USE or not tries_left:
                    raise
                pause(_HELD_PAUSE_S)
            except ServerError as fault:
                raise self._in_words(fault) from fault

    def read(self, bounds: ReadBounds) -> Slice:
        """Return what comes, up to the bounds: as soon as there is nothing more, or after the time to wait.

        Much log without a change for us ends it too, so that the position moves on.
        """
        reader, wait_s, heartbeats = self._reader, bounds.wait_s, 0
        changes: list[RowChange] = []
        size = passed = 0
        self._report()
        while not self._has_come():
            if len(changes) >= bounds.rows or size >= bounds.bytes or passed >= bounds.passed_bytes:
                return Slice(changes, reader.position, reader.ts_ms)
            piece = self._next(wait_s)
            if piece is None or heartbeats == _MOST_HEARTBEATS:
                return Slice(changes, reader.position, reader.ts_ms, is_caught_up=True)
            if piece[0] != _DATA_KIND:
                heartbeats += 1
                self._note_heartbeat(piece)
                continue
            passed += len(piece)
            _, lsn, _, self._clock = _DATA.unpack_from(piece)
            if found := reader.feed(piece[_DATA.size :], lsn):
                changes += found
                size += len(piece)
                wait_s = _QUICK_S
        return Slice(changes, Position(done=lsn_text(self._until)), reader.ts_ms, is_caught_up=True)

    def _next(self, wait_s: float) -> bytes | None:
        try:
            return self._stream.next(wait_s)
        except ServerError as fault:
            raise self._in_words(fault) from fault

    def _has_come(self) -> bool:
        """Return whether everything up to the place where this source ends was read."""
        reader = self._reader
        return 0 < self._until <= (reader.inside or reader.done)

    def _note_heartbeat(self, piece: bytes) -> None:
        """Move over log without changes for us: that of other databases, or of tables that are not published."""
        _, lsn, self._clock, is_answer_wanted = _HEARTBEAT.unpack(piece)
        if not self._reader.inside and lsn > self._reader.done:
            self._reader.done = lsn
        if is_answer_wanted:
            self._reported = 0
            self._report()

    def confirm(self, position: Position) -> None:
        """Note that everything before is safe. The server is told with the next read."""
        self._confirmed = max(self._confirmed, lsn_of(position.done))

    def _report(self) -> None:
        if self._reported != self._confirmed:
            safe = self._reported = self._confirmed
            self._stream.reply(_CONFIRMED.pack(b"r", safe, safe, safe, self._clock, 0))

    def _known(self, relation: Relation) -> KnownTable:
        keys = [each.name for each in relation.columns if each.is_identity]
        if relation.identity in "fn":
            names = {each.name for each in relation.columns}
            keys = self._catalog.key_names(relation.schema, relation.name)
            keys = keys if names.issuperset(keys) else []
        made = [
            self._catalog.column(each.name, each.type_number, each.modifier, is_key=each.name in keys)
            for each in relation.columns
        ]
        table = SourceTable(
            self._place.address.database, relation.name, tuple(column for column, _ in made), schema=relation.schema
        )
        identities = (each.is_identity for each in relation.columns)
        columns = [(column.name, form.read, next(identities)) for column, form in made]
        return KnownTable(table, columns)

    def _in_words(self, fault: ServerError) -> CaptureError:
        slot, publication = self._place.names
        if fault.code == _PREREQUISITE:
            return LogLost(
                f"the slot {slot} cannot be read from our position {lsn_text(self._reader.done)}: {fault}. Type pyromq "
                "cdc check; if the log is lost, pyromq cdc reset, then pyromq cdc run, which reads all rows again"
            )
        if fault.code == _UNDEFINED:
            return LogLost(
                f"{fault}: slot {slot} and publication {publication} have to be there for as long as the capture is. "
                "Changes from before a publication was made anew cannot be read: type pyromq cdc reset, then run"
            )
        return fault

    def close(self) -> None:
        try:
            self._asking.close()
        finally:
            self._stream.close()
