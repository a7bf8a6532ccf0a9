"""Records that a loop of the broker cannot handle: noted with the reason, so that everything behind them goes on.

The note is `pyromq/quarantine.json`, by place in the log. The record itself stays where it is; before its log file goes
it is copied into `pyromq/quarantine/`. The loops ask here before they handle a record, the broker calls `copying` and
`copied` before retention deletes, and the command `pyromq store quarantine` lists, adds and releases. Nothing here
decides what is wrong with a record. Opening a store needs no note, and a damaged table costs the notes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from ... import logs
from ...errors import PyroError
from ..files.disk import Disk, DiskError, read_if_there, replace_durably
from .json_tables import JsonTable, TableDamaged, read_table

log = logs.get("pyromq.store")

TABLE = "pyromq/quarantine.json"
FOLDER = "pyromq/quarantine"
SECTION = "records"
BY_HAND = "by hand"
MOST = 10_000  # notes; what comes then is counted and logged alone
MOST_COPIED_BYTES = 1 << 28
_REASON_CHARACTERS = 500


class QuarantinedRecord(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One quarantined record: by whom, and why."""

    position: int
    size: int
    topic: str
    queue_id: int
    loop: str
    reason: str
    time_ms: int
    is_released: bool = False  # the next start puts it to the end of its queue
    is_put_again: bool = False  # which was done: nobody has to see it any more, but loops leave the old record out
    is_copied: bool = False  # its bytes are in `FOLDER` too

    @property
    def copy_name(self) -> str:
        return f"{FOLDER}/{self.position:020d}"


class Quarantine:
    """One writer: the event loop, or a tool that has the store's lock. `changed` is called when there is something to
    write; a kill before that lets a record be tried once more."""

    def __init__(self, table: JsonTable, now_ms: Callable[[], int], changed: Callable[[], None] = lambda: None) -> None:
        self._table = table
        self._now_ms = now_ms
        self._changed = changed
        self._records = {one.position: one for one in _read(table)}
        self.unlisted = 0  # that came when the list was full

    def __len__(self) -> int:
        return sum(not one.is_put_again for one in self._records.values()) + self.unlisted

    def __contains__(self, position: int) -> bool:
        """Return whether a loop is to leave out the record at this position."""
        return position in self._records

    def get(self, position: int) -> QuarantinedRecord | None:
        return self._records.get(position)

    def all(self) -> list[QuarantinedRecord]:
        """Return the records in the order of the log, without those that were put again."""
        return _in_order(self._records.values())

    def released(self) -> list[QuarantinedRecord]:
        return [one for one in self.all() if one.is_released]

    # -- changes ------------------------------------------------------------------------------------------------------

    def add(self, loop: str, position: int, size: int, topic: str, queue_id: int, why: Exception | str) -> None:
        """Note the record and log it, once. The record itself is not touched."""
        if position in self._records and not self._records[position].is_released:
            return
        reason = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        where = {"position": position, "topic": topic, "queue": queue_id, "by": loop, "why": reason}
        if len(self._records) >= MOST:
            self.unlisted += 1
            log.error("A RECORD IS LEFT OUT, and not listed: too many are put aside", **where)
            return
        # What nobody has foreseen comes with its traceback: whoever puts a record aside for it is handling it.
        say = log.error if isinstance(why, str | PyroError) else log.exception
        say("A RECORD IS PUT ASIDE, everything behind it goes on: see `pyromq store quarantine`", **where)
        self.note(
            QuarantinedRecord(
                position=position,
                size=size,
                topic=topic,
                queue_id=queue_id,
                loop=loop,
                reason=reason[:_REASON_CHARACTERS],
                time_ms=self._now_ms(),
                is_copied=position in self._records and self._records[position].is_copied,
            )
        )

    def release(self, position: int) -> QuarantinedRecord | None:
        """Let the record be tried again at the next start; None if it is not in quarantine."""
        found = self._records.get(position)
        if found is not None and found.is_put_again:
            return None
        if found is not None:
            found = msgspec.structs.replace(found, is_released=True)
            self.note(found)
        return found

    def forget_before(self, start: int) -> None:
        """Drop what was put again, once no loop can meet the old record any more: the log begins behind it."""
        for one in [one for one in self._records.values() if one.is_put_again and one.position < start]:
            self.forget(one.position)

    def forget(self, position: int) -> None:
        """Drop the note: the record was handled after all."""
        if self._records.pop(position, None) is not None:
            self._table.drop(SECTION, str(position))
            self._changed()

    def note(self, one: QuarantinedRecord) -> None:
        """Add a record, or replace what was noted of it."""
        self._records[one.position] = one
        self._table.put(SECTION, str(one.position), msgspec.to_builtins(one))
        self._changed()

    # -- copies -------------------------------------------------------------------------------------------------------

    def copying(
        self, disk: Disk, start: int, end: int, read: Callable[[int, int], bytes]
    ) -> list[Callable[[], int | None]]:
        """Return calls that copy the records of a part of the log that is about to go.

        Each call blocks, copies one record, and returns the position to hand to `copied`.
        """
        left = MOST_COPIED_BYTES - sum(one.size for one in self._records.values() if one.is_copied)
        jobs: list[Callable[[], int | None]] = []
        for one in self.all():
            if not start <= one.position < end or one.is_copied:
                continue
            left -= one.size
            if left < 0:
                log.error("A RECORD THAT WAS PUT ASIDE IS LOST with its log file: too many", position=one.position)
                continue
            jobs.append(partial(_copy, disk, one, read))
        return jobs

    def copied(self, position: int | None) -> None:
        found = None if position is None else self._records.get(position)
        if found is not None:
            self.note(msgspec.structs.replace(found, is_copied=True))


def read_quarantine(disk: Disk) -> list[QuarantinedRecord]:
    """Return the quarantined records. Reads only: for tools, also while a broker runs."""
    content = read_table(disk, TABLE, quiet=True).content.get(SECTION, {})
    return _in_order(_entries(content.values() if isinstance(content, dict) else ()))


def _in_order(records: Iterable[QuarantinedRecord]) -> list[QuarantinedRecord]:
    return sorted((one for one in records if not one.is_put_again), key=lambda one: one.position)


def read_copy(disk: Disk, one: QuarantinedRecord) -> bytes | None:
    return read_if_there(disk, one.copy_name)


def remove_copy(disk: Disk, one: QuarantinedRecord) -> None:
    if disk.exists(one.copy_name):
        disk.remove(one.copy_name)


def _copy(disk: Disk, one: QuarantinedRecord, read: Callable[[int, int], bytes]) -> int | None:
    """Copy a record and return its position. One that cannot be copied is lost with its file, which is logged."""
    try:
        raw = read(one.position, one.size)
        replace_durably(disk, one.copy_name, raw)
    except DiskError as fault:
        log.error("A RECORD THAT WAS PUT ASIDE IS LOST with its log file", position=one.position, why=str(fault))
        return None
    return one.position


def _read(table: JsonTable) -> Iterable[QuarantinedRecord]:
    try:
        content: Any = table.load().get(SECTION, {})
    except TableDamaged as fault:
        log.error("the list of records that were put aside cannot be read and begins anew", why=str(fault))
        return ()
    return _entries(content.values() if isinstance(content, dict) else ())


def _entries(values: Iterable[Any]) -> Iterable[QuarantinedRecord]:
    for entry in values:
        try:
            yield msgspec.convert(entry, QuarantinedRecord)
        except msgspec.ValidationError as fault:
            log.error("a note on a record that was put aside cannot be read", table=TABLE, why=str(fault))
