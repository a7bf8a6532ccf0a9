"""Records of table changes, taken one by one in their order, make the tables what they were at the master. Pure.

`following.py` does so on a follower while records come, `takeover.py` when a master begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ....model.table_change import DROPPED
from ....protocol.replication.table_records import RecordKind, TableRecord


class ReplicaTable(Protocol):
    """A table that is made like the master's. TableDamaged: a value that cannot stand there."""

    def put(self, section: str, key: str | int, value: Any) -> None: ...

    def drop(self, section: str, key: str | int) -> None: ...

    def replace(self, section: str, value: Any) -> None: ...

    def entries(self) -> Iterable[tuple[str, str | int]]:
        """Return the entries that a snapshot which does not have them takes away."""
        ...

    def record_done(self) -> None:
        """Note that a record was taken as a whole: what it changed is to be written."""
        ...


class Fold:
    """Takes records. `next` is the offset of the next one in the topic's queue."""

    def __init__(self, tables: Mapping[str, ReplicaTable], offset: int) -> None:
        self.tables = tables
        self.next = offset
        self._begun: int | None = None  # offset of the BEGIN of a snapshot whose END is still to come
        self._seen: set[tuple[str, str, str | int]] = set()  # what was set since then

    @property
    def goes_on_at(self) -> int:
        """Return the offset from which on records have to be taken again, if the tables are kept as they are now."""
        return self.next if self._begun is None else self._begun

    def take(self, offset: int, record: TableRecord) -> None:
        """Take the next record. ValueError: it is not the next one."""
        if offset != self.next:
            raise ValueError(f"table changes are taken in order: after {self.next - 1} comes {self.next}, not {offset}")
        if record.kind is RecordKind.BEGIN:
            self._begun, self._seen = offset, set()
        for name, changes in record.changes:
            table = self.tables[name]
            for change in changes:
                self._change(name, table, *change)
            table.record_done()
        if record.kind is RecordKind.END and self._begun is not None and self._begun == record.snapshot:
            self._drop_unseen()
            self._begun, self._seen = None, set()
        self.next = offset + 1

    def _change(self, name: str, table: ReplicaTable, section: str, key: str | int | None, value: Any) -> None:
        if key is None:
            table.replace(section, value)
            if self._begun is not None:
                self._seen = {one for one in self._seen if one[:2] != (name, section)}
        elif value is DROPPED:
            table.drop(section, key)
            self._seen.discard((name, section, key))
        else:
            table.put(section, key, value)
            if self._begun is not None:
                self._seen.add((name, section, key))

    def _drop_unseen(self) -> None:
        for name, table in self.tables.items():
            gone = [(section, key) for section, key in table.entries() if (name, section, key) not in self._seen]
            for section, key in gone:
                table.drop(section, key)
            if gone:
                table.record_done()
