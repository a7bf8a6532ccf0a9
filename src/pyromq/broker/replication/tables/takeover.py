"""A member that begins to lead: its tables are made what its log says, before the broker's parts read them.

Called when the store is open. Topics, groups and offsets are in memory by then; other tables are files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .... import logs
from ....store.files.disk import Disk
from ....store.message_store import MessageStore
from ....store.tables.json_tables import JsonTable
from .carried import CARRIED
from .fold import Fold, ReplicaTable
from .note import LastRole, TablesNote
from .replica_tables import ReplicaFile
from .state_queue import StateQueue

log = logs.get("pyromq.broker")


@dataclass(frozen=True, slots=True)
class Takeover:
    """How a master begins."""

    knows_what_left: bool  # its tables say what was delivered: it led before, and stopped cleanly
    timers_doubtful: bool  # the timer's files may call slots empty whose messages were cut off
    goes_on_at: int  # offset of the next record of table changes


def take_over(
    store: MessageStore, disk: Disk, in_memory: Callable[[Callable[[], int]], Mapping[str, ReplicaTable]]
) -> Takeover:
    """Make the tables what the log says up to its end, and note that this member leads. Blocking.

    `in_memory` makes what takes the changes of tables that were read before, and is given a call that returns the place
    of the record that is taken. TableRecordRefused: one cannot be taken, and this member must not lead without it."""
    note, queue = TablesNote(disk), StateQueue(store)
    end = queue.end
    begin = where_to_begin(note, queue, end)
    is_own = note.role is LastRole.NONE or (note.role is LastRole.LED and note.offset == end)
    doubtful = note.timers_doubtful or note.role is LastRole.LEADS
    if begin is not None and begin < end:
        _take(queue, disk, begin, end, in_memory)
        log.info("tables are as the log has them", records=end - begin, offset=end)
    note.write(LastRole.LEADS, end, doubtful)
    return Takeover(is_own and store.recovery.clean_stop, doubtful, end)


def _take(
    queue: StateQueue,
    disk: Disk,
    begin: int,
    end: int,
    in_memory: Callable[[Callable[[], int]], Mapping[str, ReplicaTable]],
) -> None:
    known = in_memory(lambda: queue.position_of(fold.next))
    files = {name: JsonTable(disk, name) for name in CARRIED if name not in known}
    for file in files.values():
        file.load()
    fold = Fold({**known, **{name: ReplicaFile(file, _nothing) for name, file in files.items()}}, begin)
    for offset in range(begin, end):
        fold.take(offset, queue.read(offset))
    for file in files.values():
        if file.changes:
            file.save()


def where_to_begin(note: TablesNote, queue: StateQueue, end: int) -> int | None:
    """Return the offset from which on records up to `end` make the tables; None: the log has no whole snapshot.

    That is where this member has got to, unless it led and was killed, or the log was cut below that or has lost it."""
    if note.role in (LastRole.FOLLOWED, LastRole.LED) and queue.start <= note.offset <= queue.end:
        return note.offset
    return queue.snapshot_before(end)


def _nothing() -> None:
    """Do nothing: the file is written when all records are taken."""
