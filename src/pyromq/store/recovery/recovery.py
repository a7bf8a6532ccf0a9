"""Recovery: find the last good record, cut off what is behind it, and make everything derived fit the log.

opening.py calls `recover` before the first append. Passes, in order:

1. files     the log's files as they lie there; short ones get their length back
2. derived   queues and index as they lie there, compared with what should be there (derived_load.py)
3. start     where to begin: behind a clean stop at the newest record that a queue knows, else at the checkpoint
4. discard   after an unclean stop, queue and index entries from there on are discarded: they may be torn; so are queue
             entries that lead to extension files (queues/extension.py)
5. scan      every record from there to the end is checked and dispatched (log_scan.py)
6. rebuild   queues that were found incomplete get their older entries from the log
7. cut       the log ends here: the rest is copied aside and zeroed, later files go; nothing derived points beyond it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop

from ... import logs
from ...kernel.records import Placed
from ..index.key_index import Index
from ..layout import COMMIT_LOG, QueueEntry
from ..log.dispatch import RecordDispatcher
from ..log.log_walk import Gap, LogWalk, Tail
from ..queues.queue import StoredQueue
from ..store_files import StoreFiles
from .catalogue import KnownQueue
from .checkpoint import reset_checkpoint
from .derived_load import DerivedLoad
from .log_scan import LogScan, copy_truncated
from .store_state import StoreState

log = logs.get("pyromq.store")

_AGAIN_BYTES = 1 << 20
_ONE_RECORD_BYTES = 4096  # as much is read to look at a single record, if it is not longer
_AT_ONCE = 1024  # records dispatched together
_JAVA_SLACK_MS = 3_000  # how far behind the checkpoint's times Java itself goes back


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did."""

    clean_stop: bool
    start: int = 0  # the scan began here
    end: int = 0  # the log ends here
    records: int = 0  # scanned
    damage: list[Gap] = field(default_factory=list)  # stepped over; their queue entries stay
    torn: Tail | None = None  # what ended the log, if it was not simply its end
    damaged_end: bool = False  # the log goes on behind records that were synced and are none any more
    truncated_copy: str | None = None  # a copy of what was cut off
    rebuilt: list[tuple[str, int]] = field(default_factory=list)  # queues written anew from the log
    is_as_left: bool = False  # every queue and index file is as our clean stop left it


def recover(files: StoreFiles, state: StoreState, on_scan: Callable[[int], None]) -> RecoveryReport:
    """Recover, before the first append, files that nobody else uses yet. `on_scan` is called with the positions."""
    _load_log(files, state.log_start)
    report = Recovery(files, state, DerivedLoad(files, state)).run(on_scan)
    files.removals.carry_out()
    return report


def _load_log(files: StoreFiles, log_start: int | None) -> None:
    """Load the log's files (pass 1). Those in front of `log_start` have expired and go."""
    disk, commit_log = files.disk, files.commit_log
    irregulars = commit_log.load()
    if commit_log.sequence.bases:
        # Whoever died between making a file and syncing its name left a name that a power cut takes back, and with it
        # all that is acked in the file from now on.
        disk.sync_folder(COMMIT_LOG)
        disk.sync_folder()
    if log_start is not None and commit_log.drop_before(log_start):
        files.unsynced.folders.add(COMMIT_LOG)
    for irregular in irregulars:
        if 0 <= irregular.base < commit_log.start:
            continue
        log.warning("irregular file in the commit log", name=irregular.name, what=irregular.what)
        if irregular.base >= 0 and disk.size(irregular.name) < commit_log.file_bytes:
            commit_log.sequence.restore_length(commit_log.sequence.base_of(irregular.base), allocate=True)


class Recovery:
    """Passes 3 to 7, over files that were loaded."""

    def __init__(self, files: StoreFiles, state: StoreState, loaded: DerivedLoad) -> None:
        self._disk = files.disk
        self._delays = files.config.delay_levels
        self._log = files.commit_log
        self._queues = files.queues
        self._index = files.index
        self._unsynced = files.unsynced
        self._deleted = files.deleted
        self._checkpoint = state.checkpoint
        self._synced = state.synced
        self._loaded = loaded
        self._cut_entries: list[tuple[StoredQueue, QueueEntry]] = []  # newest ones of queues that lost entries
        self._dispatcher = RecordDispatcher(files.queues, files.index, files.deleted.positions)
        self._report = RecoveryReport(state.clean_stop, is_as_left=loaded.is_as_left)
        self._scan = LogScan(files.commit_log, self._delays, state.synced, loaded.confirmed, files.queues)

    def run(self, on_scan: Callable[[int], None]) -> RecoveryReport:
        start = self._choose_start()
        if self._loaded.has_extensions or not self._report.clean_stop:
            start = self._discard(start)
        self._report.start = start
        self._dispatch_records(start, on_scan)
        self._keep_damaged_end()
        self._keep_damaged_entries()
        self._rebuild()
        self._keep_reserved()
        self._cut()
        return self._report

    def _is_record(self, entry: QueueEntry) -> bool:
        """Return whether the log has the record that an entry speaks of (or had it: older files may have expired)."""
        if entry.position < self._log.start:
            return True
        placed = self._record_at(entry.position)
        return placed is not None and (placed.size, placed.queue_offset) == (entry.size, entry.queue_offset)

    def _record_at(self, position: int) -> Placed | None:
        walk = LogWalk(
            self._log.sequence, self._delays, position, lambda fault: True, self._log.whole_crc, _ONE_RECORD_BYTES
        )
        first = next(iter(walk)) if self._log.sequence.has(position) else None
        return first if isinstance(first, Placed) and first.position == position else None

    # -- pass 3: where to begin ---------------------------------------------------------------------------------------

    def _choose_start(self) -> int:
        if self._index is not None and self._loaded.index_is_lost:
            start = self._without_index(self._index)
        elif self._report.clean_stop:
            start = self._newest_known()
        elif self._synced is not None:
            start = self._checkpoint.queues_position
        else:
            start = self._java_start()
        if self._loaded.has_extensions:
            log.warning("queue entries lead to extension files: they are written anew from the log")
            reset_checkpoint(self._disk, self._checkpoint)
            start = self._log.start
        return start if self._log.sequence.has(start) else self._log.start

    def _without_index(self, index: Index) -> int:
        """Remove the index, which is then written again from the log's start."""
        reset_checkpoint(self._disk, self._checkpoint)
        index.drop_newest_from(0)
        return self._log.start

    def _newest_known(self) -> int:
        places = [(-known.last[0], known.topic, known.queue_id) for known in self._queues.unchanged if known.last]
        for queue in self._queues.loaded():
            entry = self._loaded.last_entry(queue)
            if entry is not None:
                places.append((-entry.position, queue.topic, queue.queue_id))
        heapify(places)  # nearly always the first one is it: no need to sort them
        while places:
            _, topic, queue_id = heappop(places)
            queue_of = self._queues.get(topic, queue_id)
            entry = None if queue_of is None else queue_of.last_entry()
            if entry is not None and entry.position >= self._log.start and self._is_record(entry):
                return entry.position
        return self._log.start

    def _java_start(self) -> int:
        """Start as Java does: in the file of the last record whose queue entry is flushed, or by the times."""
        if self._checkpoint.queues_position:
            return self._log.sequence.base_of(self._checkpoint.queues_position)
        known = min(self._checkpoint.log_time_ms, self._checkpoint.queues_time_ms) - _JAVA_SLACK_MS
        for base in reversed(self._log.sequence.bases):
            first = self._record_at(base)
            if first is not None and first.store_time <= known:
                return base
        return self._log.start

    # -- pass 4: what an unclean stop may have torn -------------------------------------------------------------------

    def _discard(self, start: int) -> int:
        for queue in self._queues:
            last = self._loaded.last_entry(queue)
            if last is not None and last.queue_offset + last.messages < queue.next_offset:
                # See `_keep_reserved`.
                self._loaded.reserved.append(KnownQueue(queue.topic, queue.queue_id, queue.next_offset))
            queue.discard_from(start, self._is_record)
            if last is not None and queue.next_offset <= last.queue_offset:
                self._cut_entries.append((queue, last))
        if self._index is None or self._report.clean_stop:
            return start
        if self._synced is not None:
            self._index.discard_from(start)
            return start
        trusted = sum(1 for file in self._index.files if 0 < file.tail.end_time <= self._checkpoint.index_time_ms)
        if trusted < len(self._index.files):
            reset_checkpoint(self._disk, self._checkpoint)
        begin = self._index.drop_newest_from(trusted)
        return start if begin is None or not self._log.sequence.has(begin) else min(start, begin)

    # -- pass 5: scan -------------------------------------------------------------------------------------------------

    def _dispatch_records(self, start: int, on_scan: Callable[[int], None]) -> None:
        waiting: list[Placed] = []
        for run in self._scan.runs(start):
            waiting += run
            on_scan(run[-1].end)
            if len(waiting) >= _AT_ONCE:
                self._dispatch(waiting)
                waiting = []
        self._dispatch(waiting)
        report, scan = self._report, self._scan
        report.end, report.records, report.damage, report.torn = scan.end, scan.records, scan.damage, scan.torn

    def _dispatch(self, places: list[Placed]) -> None:
        """Dispatch, and notice queues that lack entries for records before the scan's start."""
        for queue, group in self._dispatcher.by_queue(places):
            expected = queue.next_offset
            for placed in group:
                older_exist = self._report.start > self._log.start and not self._scan.damage
                if placed.queue_offset > expected and older_exist:
                    self._loaded.incomplete.add((queue.topic, queue.queue_id))
                expected = placed.queue_offset + placed.messages
        self._dispatcher.dispatch(places)

    def _keep_damaged_end(self) -> None:
        """Keep positions and offsets of records that were synced and are none any more.

        Records were synced up to the synced position, so where they end before it, the last ones are damaged. The log
        goes on behind them, if their file is there."""
        end = self._report.end
        if self._synced is None or end >= self._synced:
            return
        self._report.damage.append(Gap(end, self._synced, "the end of the log is gone"))
        log.error("the log ends before what was synced", end=end, synced=self._synced)
        if self._log.sequence.has(self._synced - 1):
            self._report.end = self._synced
            self._report.torn = None
            self._report.damaged_end = True

    def _keep_damaged_entries(self) -> None:
        """Write a queue's newest entry again if it was discarded and its record is damaged, to keep its offset."""
        for queue, last in self._cut_entries:
            if queue.next_offset > last.queue_offset or last.is_filler:
                continue
            if any(gap.position <= last.position < gap.end for gap in self._report.damage):
                place = (last.position, last.size, queue.topic, queue.queue_id, last.queue_offset)
                queue.accept([Placed(*place, 0, 0, last.tag_code, b"", last.messages)])

    # -- pass 6: rebuild ----------------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """Write the older entries of incomplete queues, for all of them together in one walk over the log."""
        self._loaded.incomplete.update(self._queues_cut_too_short())
        if not self._loaded.incomplete:
            return
        reset_checkpoint(self._disk, self._checkpoint)
        for topic, queue_id in sorted(self._loaded.incomplete):
            log.warning("queue is rebuilt from the log", topic=topic, queue=queue_id)
            queue = self._queues.get(topic, queue_id)
            if queue is not None:
                queue.clear()
        dispatcher = RecordDispatcher(self._queues, None, self._deleted.positions)
        for found in LogWalk(self._log.sequence, self._delays, self._log.start, whole_crc=self._log.whole_crc):
            if not isinstance(found, Placed):
                continue
            if found.position >= self._report.end:
                break
            if (found.topic, found.queue_id) in self._loaded.incomplete:
                dispatcher.dispatch([found])
        self._report.rebuilt = sorted(self._loaded.incomplete)

    def _keep_reserved(self) -> None:
        """Reserve offsets of damaged records: a rebuilt queue may end before the record that had its last offset."""
        for known in self._loaded.reserved:
            if known.topic in self._deleted.positions:
                continue
            queue = self._queues.get_or_make(known.topic, known.queue_id)
            if queue.next_offset < known.next_offset:
                place = {"topic": known.topic, "queue": known.queue_id, "offset": queue.next_offset}
                log.error("offsets of damaged records stay taken", **place, until=known.next_offset)
                queue.reserve_up_to(known.next_offset)

    def _queues_cut_too_short(self) -> Iterator[tuple[str, int]]:
        """Yield queues whose discarded entry the scan did not bring again.

        If that entry points to where the log would go on, a power cut took its record. If not, the entry was damaged
        itself, and its record lies before the scan's start."""
        for queue, last in self._cut_entries:
            lost = self._report.end <= last.position < self._log.sequence.limit
            if queue.next_offset <= last.queue_offset and not lost:
                yield queue.topic, queue.queue_id

    # -- pass 7: cut --------------------------------------------------------------------------------------------------

    def _cut(self) -> None:
        end = self._report.end
        as_we_left_it = self._report.clean_stop and self._report.torn is None and end == self._synced
        if self._report.torn is not None:
            self._report.truncated_copy = copy_truncated(self._disk, self._log.sequence, end)
        if not as_we_left_it:
            self._unsynced.files.update(self._log.sequence.cut(end, allocate=True))
            self._unsynced.folders.add(COMMIT_LOG)
            if not self._report.clean_stop:
                known = self._report.start if self._synced is None else self._synced
                self._write_again(max(known, self._log.start), end)
        elif self._log.sequence.drop_beyond(end):  # a file made ahead, whose removal a power cut undid
            self._unsynced.folders.add(COMMIT_LOG)
        last = self._scan.last
        last_position = last.position if last else min(self._checkpoint.queues_position, end)
        last_time = last.store_time if last else self._checkpoint.log_time_ms
        self._log.continue_at(end, last_position, last_time)
        self._log.whole_crc = self._log.whole_crc.closed_at(
            last.end if last is not None and self._report.damaged_end else end, last_position
        )
        self._cut_derived(end)
        self._deleted.forget_outside(self._log.start, end)

    def _cut_derived(self, end: int) -> None:
        """Discard entries that point at or beyond the end of the log, or before its start."""
        for known in self._queues.unchanged:
            if known.last and known.last[0] >= end:
                self._queues.get(known.topic, known.queue_id)  # get() loads it: so the loop below sees it
        for queue in self._queues.loaded():
            last = self._loaded.last_entry(queue)
            if last is not None and last.position >= end:
                queue.discard_from(end, self._is_record)
            if self._log.start:
                queue.raise_minimum(self._log.start)
            queue.tail.readable_end = queue.next_offset
        if self._index is not None and self._index.state.covered >= end:
            self._index.discard_from(end)

    def _write_again(self, position: int, end: int) -> None:
        """Write once more what is not known to be synced.

        After a failed sync the kernel takes pages for clean that the medium never got: a second one proves nothing.
        """
        for piece in self._log.sequence.pieces(position, end, _AGAIN_BYTES):
            self._unsynced.files.update(self._log.sequence.write(position, piece))
            position += len(piece)
