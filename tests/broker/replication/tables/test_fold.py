"""Taking records of table changes: in order, each once; and from any snapshot on the same tables come out."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyromq.broker.replication.tables.fold import Fold
from pyromq.broker.replication.tables.replica_tables import ReplicaFile
from pyromq.model.table_change import DROPPED, TableChange
from pyromq.protocol.replication.table_records import NO_SNAPSHOT, RecordKind, TableRecord
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.simulated_disk import SimulatedDisk

TABLE = "config/topics.json"


def taken_by(records: list[TableRecord], begin: int, table: JsonTable) -> dict[str, Any]:
    fold = Fold({TABLE: ReplicaFile(table, lambda: None)}, begin)
    for offset in range(begin, len(records)):
        fold.take(offset, records[offset])
    return content(table)


def content(table: JsonTable) -> dict[str, Any]:
    found = [table.find(section, key) for section, key in table.names()]
    return {str(one.key): one.value for one in found if one is not None}


def changes(*given: TableChange) -> list[tuple[str, list[TableChange]]]:
    return [(TABLE, list(given))]


def written(seed: int) -> tuple[list[TableRecord], dict[str, Any], list[int]]:
    """What a master writes with random changes among which it takes snapshots, as slowly as it likes."""
    rng, table = random.Random(seed), dict[str, Any]()
    records: list[TableRecord] = []
    snapshots: list[int] = []
    left: list[str] | None = None  # of the snapshot that is being written
    begun, newest = NO_SNAPSHOT, NO_SNAPSHOT
    for number in range(200):
        key = f"k{rng.randrange(12)}"
        if rng.random() < 0.3:
            table.pop(key, None)
            records.append(TableRecord(RecordKind.CHANGES, newest, changes(TableChange("s", key, DROPPED))))
        else:
            table[key] = number
            records.append(TableRecord(RecordKind.CHANGES, newest, changes(TableChange("s", key, number))))
        if left is None and rng.random() < 0.1:
            begun, left = len(records), sorted(table)
            records.append(TableRecord(RecordKind.BEGIN, newest))
        elif left:
            key = left.pop()
            if key in table:
                records.append(TableRecord(RecordKind.CHANGES, newest, changes(TableChange("s", key, table[key]))))
        elif left == []:
            newest, left = begun, None
            snapshots.append(newest)
            records.append(TableRecord(RecordKind.END, newest))
    return records, table, snapshots


@pytest.mark.parametrize("seed", range(20))
def test_from_any_snapshot_on_the_tables_are_the_masters(seed: int) -> None:
    records, table, snapshots = written(seed)
    assert snapshots
    for begin in (0, *snapshots):
        mine = JsonTable(SimulatedDisk(), TABLE)
        if begin:
            for number in range(30):  # what a deposed master had, and the log has not
                mine.put("s", f"k{number}", "mine")
        assert taken_by(records, begin, mine) == table


def test_what_goes_on_within_a_snapshot_begins_again_at_it() -> None:
    fold = Fold({TABLE: ReplicaFile(JsonTable(SimulatedDisk(), TABLE), lambda: None)}, 5)
    assert fold.goes_on_at == 5
    fold.take(5, TableRecord(RecordKind.BEGIN, NO_SNAPSHOT))
    fold.take(6, TableRecord(RecordKind.CHANGES, NO_SNAPSHOT, changes(TableChange("s", "k", 1))))
    assert (fold.next, fold.goes_on_at) == (7, 5)
    fold.take(7, TableRecord(RecordKind.END, 5))
    assert fold.goes_on_at == 8


@pytest.mark.parametrize("offset", [4, 6])
def test_nothing_is_taken_twice_or_out_of_order(offset: int) -> None:
    table = JsonTable(SimulatedDisk(), TABLE)
    fold = Fold({TABLE: ReplicaFile(table, lambda: None)}, 5)
    with pytest.raises(ValueError, match="are taken in order: after 4 comes 5"):
        fold.take(offset, TableRecord(RecordKind.CHANGES, NO_SNAPSHOT, changes(TableChange("s", "k", 1))))
    assert content(table) == {}
