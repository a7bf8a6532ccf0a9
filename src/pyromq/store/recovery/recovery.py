"""Opening a store: find the last good record, cut off what is behind it, and make everything derived fit the log.

Passes, in order:

1. files     the log's files as they lie there; short ones get their length back
2. derived   queues and index as they lie there; a queue with a damaged file will be written anew. Queues that are as a
             clean stop of ours left them are not looked at (unchanged_queues.py)
3. start     where to begin: behind a clean stop at the newest record that a queue knows, else at the checkpoint
4. distrust  after an unclean stop, queue and index entries from there on are forgotten: they may be torn; so are queue
             entries that lead to extension files (extension.py)
5. scan      every record from there to the end is checked and dispatched
6. rebuild   queues that were found incomplete get their older entries from the log
7. cut       the log ends here: the rest is kept aside and zeroed, later files go; nothing derived points beyond it

Damage and torn tail are two things. Below the last synced position (our mark) a bad record is damage: it is stepped
over and reported. At or above it, it is a torn tail and ends the log. In a store without our mark (only Java wrote it)
records behind a bad one are kept where a queue entry confirms the first of them and store time does not go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop

from ... import logs
from ...kernel.records import Fault, Placed
from ...protocol.record import whole_record_crc
from ..config import StoreConfig
from ..files.disk import Disk
from ..files.file_sequence import IrregularFile
from ..files.segment import parse_queue_name
from ..files.unsynced import UnsyncedFiles
from ..index.key_index import Index
from ..layout import BATCH_QUEUES, COMMIT_LOG, QUEUES, QueueEntry
from ..log.commit_log import CommitLog
from ..log.deleted_topics import DeletedTopics
from ..log.dispatch import RecordDispatcher
from ..log.log_walk import Gap, LogWalk, Tail
from ..queues.extension import has_extensions
from ..queues.queue import StoredQueue
from ..queues.queue_table import QueueTable
from ..queues.reserved_offsets import read_reserved
from .catalogue import KnownQueue
from .checkpoint import Checkpoint, CheckpointFile
from .missing_index import damaged_index_files
from .store_state import StoreState
from .truncated_tail import copy_truncated

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
    as_left: bool = False  # every queue and index file is as our clean stop left it


class Recovery:
    """Runs once, before the first append, over parts that nobody else uses yet."""

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        index: Index | None,
        unsynced: UnsyncedFiles,
        state: StoreState,
        deleted: DeletedTopics,
    ) -> None:
        self._deleted = deleted
        self._disk = disk
        self._config = config
        self._delays = config.delay_levels
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._unsynced = unsynced
        self._state = state
        self._checkpoint = state.checkpoint
        self._synced = state.synced
        self._extended = has_extensions(disk)  # tag codes lead to extension files: entries are written anew
        self._log_start = state.log_start
        self._catalogue = state.catalogue
        self._known = [] if state.catalogue is None else state.catalogue.known_queues()
        self._gone = state.gone
        self._cut_entries: list[tuple[StoredQueue, QueueEntry]] = []  # newest ones of queues that were distrusted
        self._dispatcher = RecordDispatcher(queues, index, deleted.positions)
        self._report = RecoveryReport(state.clean_stop)
        # Of queues that were looked at, with their end then: with tens of thousands a second look means opening again.
        self._newest: dict[tuple[str, int], tuple[int, QueueEntry | None]] = {}
        self._incomplete: set[tuple[str, int]] = set()  # queues that lack older entries
        self._index_is_lost = False
        self._taken = read_reserved(disk)  # how far queues reached that are written anew
        self._confirmed = 0  # in a store of Java's: end of the newest record that a queue entry knows
        self._last: Placed | None = None

    def run(self) -> RecoveryReport:
        self._load_log()
        self._load_derived()
        start = self._choose_start()
        if self._extended or not self._report.clean_stop:
            start = self._distrust(start)
        self._report.start = start
        self._scan(start)
        self._keep_damaged_end()
        self._keep_damaged_entries()
        self._rebuild(start)
        self._keep_taken()
        self._cut()
        return self._report

    # -- pass 1: files ------------------------------------------------------------------------------------------------

    def _load_log(self) -> None:
        irregulars = self._log.load()
        if self._log.sequence.bases:
            # Whoever died between making a file and syncing its name left a name that a power cut takes back, and
            # with it all that is acked in the file from now on.
            self._disk.sync_folder(COMMIT_LOG)
            self._disk.sync_folder()
        if self._log_start is not None and self._log.drop_before(self._log_start):
            self._unsynced.folders.add(COMMIT_LOG)
        for irregular in irregulars:
            if 0 <= irregular.base < self._log.start:
                continue
            log.warning("irregular file in the commit log", name=irregular.name, what=irregular.what)
            if irregular.base >= 0 and self._disk.size(irregular.name) < self._config.commit_log_file_bytes:
                self._log.sequence.restore_length(self._log.sequence.base_of(irregular.base), allocate=True)

    # -- pass 2: derived files ----------------------------------------------------------------------------------------

    def _load_derived(self) -> None:
        loaded = self._load_queues()
        for queue, irregular in loaded:
            damaged = [fault for fault in irregular if fault.base >= 0]
            for fault in irregular:
                log.warning("irregular file in a queue", name=fault.name, what=fault.what)
            last = queue.last_entry()
            self._newest[queue.topic, queue.queue_id] = (queue.next_offset, last)
            if damaged:
                self._incomplete.add((queue.topic, queue.queue_id))
            elif last is not None:
                self._confirmed = max(self._confirmed, last.position + last.size)
        self._confirmed = min(self._confirmed, self._log.sequence.limit)  # an entry may be damaged itself
        self._forget_deleted()
        for known in self._queues.unchanged.lacking(self._known):
            there = self._queues.get(known.topic, known.queue_id)
            if known.next_offset and (there is None or not known.fits(there)):
                log.warning("queue has other entries than it was left with", topic=known.topic, queue=known.queue_id)
                self._incomplete.add((known.topic, known.queue_id))
                self._taken.append(known)
        for name in sorted(self._gone):
            self._note_gone(name)
        if self._index is not None:
            self._load_index(self._index)
        self._report.as_left = self._has_what_was_left() and not (loaded or self._incomplete or self._index_is_lost)

    def _load_queues(self) -> list[tuple[StoredQueue, list[IrregularFile]]]:
        """Queues may rest only behind a clean stop of ours, and while the log starts where it did. Entries that lead to
        extension files are all written anew."""
        left = self._catalogue
        if left is None or self._synced is None or self._extended or left.log_start != self._log.start:
            return self._queues.load()
        return self._queues.load(self._known, left.folders)

    def _has_what_was_left(self) -> bool:
        known = None if self._catalogue is None else self._catalogue.index_files
        there = None if self._index is None else self._index.known_files()
        return self._catalogue is not None and known == there

    def _load_index(self, index: Index) -> None:
        lost = damaged_index_files(self._disk, self._config, self._state, self._log.start)
        for name, what in sorted(lost.items()):
            log.warning("the index is written again from the log, a file of it is lost", name=name, what=what)
        if lost:
            self._forget_checkpoint()  # before the rest of a file that is cut short goes
        index.load()
        self._index_is_lost = bool(lost) or (self._report.clean_stop and self._lacks_files(index))

    def _lacks_files(self, index: Index) -> bool:
        """Also one whose header is lost: it holds nothing then. A store of Java's without any lacks them all."""
        there = {file.name for file in index.files}
        if self._catalogue is None or self._catalogue.index_files is None:
            return not there
        known = self._catalogue.index_files
        return any(file.name not in there and file.end_position >= self._log.start for file in known)

    def _forget_deleted(self) -> None:
        """Queues of topics that were deleted and not made again: a kill came before their files went."""
        for topic, position in self._deleted.positions.items():
            queues = self._queues.of_topic(topic)
            if queues and all((last := queue.last_entry()) is None or last.position < position for queue in queues):
                self._queues.forget_topic(topic)
                self._incomplete -= {(queue.topic, queue.queue_id) for queue in queues}

    def _note_gone(self, name: str) -> None:
        """A queue file that should be there is not. Where all records have expired there is nothing to be had again."""
        root, _, place = name.partition("/")
        topic, _, rest = place.partition("/")
        number = parse_queue_name(rest.partition("/")[0])
        if root not in (QUEUES, BATCH_QUEUES) or number is None:
            return
        queue = self._queues.get(topic, number)
        last = None if queue is None else queue.last_entry()
        if last is None or last.position >= self._log.start:
            log.warning("queue file is gone", name=name)
            self._incomplete.add((topic, number))

    def _last_entry(self, queue: StoredQueue) -> QueueEntry | None:
        """Its newest entry. If the scan brought another to the same offset, that one leads below the log's end too."""
        end, last = self._newest.get((queue.topic, queue.queue_id), (-1, None))
        return last if end == queue.next_offset else queue.last_entry()

    def _forget_checkpoint(self) -> None:
        """Before something older than the checkpoint is taken apart: a crash from here on starts at the beginning."""
        state = CheckpointFile(self._disk)
        try:
            state.save(Checkpoint(master_flushed=self._checkpoint.master_flushed, confirmed=self._checkpoint.confirmed))
        finally:
            state.close()

    def _is_record(self, entry: QueueEntry) -> bool:
        """Whether the log has the record that an entry speaks of (or had it: older files may have expired)."""
        if entry.position < self._log.start:
            return True
        placed = self._record_at(entry.position)
        return placed is not None and (placed.size, placed.queue_offset) == (entry.size, entry.queue_offset)

    def _walk(self, start: int, ends_at: Callable[[Fault], bool] = lambda fault: False) -> LogWalk:
        return LogWalk(self._log.sequence, self._delays, start, ends_at, self._log.whole_crc)

    def _record_at(self, position: int) -> Placed | None:
        walk = LogWalk(
            self._log.sequence, self._delays, position, lambda fault: True, self._log.whole_crc, _ONE_RECORD_BYTES
        )
        first = next(iter(walk)) if self._log.sequence.has(position) else None
        return first if isinstance(first, Placed) and first.position == position else None

    # -- pass 3: where to begin ---------------------------------------------------------------------------------------

    def _choose_start(self) -> int:
        if self._index_is_lost:
            start = self._without_index()
        elif self._report.clean_stop:
            start = self._newest_known()
        elif self._synced is not None:
            start = self._checkpoint.queues_position
        else:
            start = self._java_start()
        if self._extended:
            log.warning("queue entries lead to extension files: they are written anew from the log")
            self._forget_checkpoint()
            start = self._log.start
        return start if self._log.sequence.has(start) else self._log.start

    def _without_index(self) -> int:
        """It is written anew, from the log's start."""
        assert self._index is not None
        self._forget_checkpoint()
        self._index.drop_newest_from(0)
        return self._log.start

    def _newest_known(self) -> int:
        """The newest record that a queue entry leads to."""
        places = [(-known.last[0], known.topic, known.queue_id) for known in self._queues.unchanged if known.last]
        for queue in self._queues.loaded():
            entry = self._last_entry(queue)
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
        """As the Java broker does: the file of the last record whose queue entry is flushed, or by the times."""
        if self._checkpoint.queues_position:
            return self._log.sequence.base_of(self._checkpoint.queues_position)
        known = min(self._checkpoint.log_time_ms, self._checkpoint.queues_time_ms) - _JAVA_SLACK_MS
        for base in reversed(self._log.sequence.bases):
            first = self._record_at(base)
            if first is not None and first.store_time <= known:
                return base
        return self._log.start

    # -- pass 4: what an unclean stop may have torn -------------------------------------------------------------------

    def _distrust(self, start: int) -> int:
        for queue in self._queues:
            last = self._last_entry(queue)
            if last is not None and last.queue_offset + last.messages < queue.next_offset:
                self._taken.append(KnownQueue(queue.topic, queue.queue_id, queue.next_offset))  # see `_keep_taken`
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
            self._forget_checkpoint()
        begin = self._index.drop_newest_from(trusted)
        return start if begin is None or not self._log.sequence.has(begin) else min(start, begin)

    # -- pass 5: scan -------------------------------------------------------------------------------------------------

    def _scan(self, start: int) -> None:
        waiting: list[Placed] = []
        for run in self._records(start):
            waiting += run
            self._last = run[-1]
            self._report.end = run[-1].end
            self._report.records += len(run)
            if len(waiting) >= _AT_ONCE:
                self._take_in(waiting)
                waiting = []
        self._take_in(waiting)

    def _records(self, start: int) -> Iterator[list[Placed]]:
        """Records from `start` to the end of the log; sets the report's end, damage and torn tail."""
        gap: Gap | None = None
        self._report.end = start
        for found in self._walk(start, self._is_torn).runs():
            if isinstance(found, list):
                if gap is not None and not self._may_follow(found[0]):
                    self._end_at(gap.position, gap.reason)
                    return
                if gap is not None:
                    self._report.damage.append(gap)
                    log.error("damaged records are skipped", position=gap.position, until=gap.end, why=gap.reason)
                gap = None
                kept, why = self._kept(found)
                if kept:
                    yield found[:kept]
                if kept < len(found):
                    self._end_at(found[kept].position, why)
                    return
            elif isinstance(found, Gap):
                gap = found
            else:
                self._end_at(found.position if gap is None else gap.position, found.reason, found.leftovers)

    def _end_at(self, position: int, reason: str, leftovers: bool = True) -> None:
        self._report.end = position
        if leftovers:
            self._report.torn = Tail(position, reason, True)
            log.warning("the log ends in something that is no record", position=position, why=reason)

    def _is_torn(self, fault: Fault) -> bool:
        """Nothing that counts can be behind this fault: not synced by us, not known to any queue of Java's."""
        if self._synced is not None:
            return fault.position >= self._synced
        return fault.position >= self._confirmed

    def _may_follow(self, placed: Placed) -> bool:
        """Whether a record behind damage is to be kept."""
        if self._synced is not None:
            return placed.position < self._synced
        queue = self._queues.get(placed.topic, placed.queue_id)
        confirmed = placed.end <= self._confirmed and queue is not None
        return confirmed and (self._last is None or placed.store_time >= self._last.store_time)

    def _kept(self, run: list[Placed]) -> tuple[int, str]:
        """How many of them, from the first on, belong to the log, and why the next one does not."""
        last = self._last
        if run[-1].position < (self._confirmed if self._synced is None else self._synced):
            return len(run), ""
        for number, placed in enumerate(run):
            if self._is_stale(placed, last):
                return number, "a record of an older life of the log"
            if self._lost_its_end(placed):
                return number, "the last bytes of the record were never written"
            last = placed
        return len(run), ""

    def _is_stale(self, placed: Placed, last: Placed | None) -> bool:
        """Java leaves old bytes behind a truncation: behind what queues know, store time tells them from new ones."""
        beyond_known = self._synced is None and placed.position >= self._confirmed
        return beyond_known and last is not None and placed.store_time < last.store_time

    def _lost_its_end(self, placed: Placed) -> bool:
        """A lost last sector takes the record's own CRC with it, and the body's CRC still fits. What we wrote and did
        not sync must not end in zeroes: a property string ends with its separator."""
        unsynced = self._synced is not None and placed.position >= self._synced
        return unsynced and placed.properties.endswith(b"\0") and whole_record_crc(placed.properties) is None

    def _take_in(self, places: list[Placed]) -> None:
        """Dispatch, and notice queues that lack entries for records before the scan's start."""
        for queue, group in self._dispatcher.by_queue(places):
            expected = queue.next_offset
            for placed in group:
                older_exist = self._report.start > self._log.start and not self._report.damage
                if placed.queue_offset > expected and older_exist:
                    self._incomplete.add((queue.topic, queue.queue_id))
                expected = placed.queue_offset + placed.messages
        self._dispatcher.dispatch(places)

    def _keep_damaged_end(self) -> None:
        """Records were synced up to the mark, so where they end before it, the last ones are damaged. As elsewhere they
        stay in place with their offsets, and the log goes on behind them, if their file is there."""
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
        """A queue's newest entry was forgotten, and its record turned out to be damaged: its offset stays taken."""
        for queue, last in self._cut_entries:
            if queue.next_offset > last.queue_offset or last.is_filler:
                continue
            if any(gap.position <= last.position < gap.end for gap in self._report.damage):
                place = (last.position, last.size, queue.topic, queue.queue_id, last.queue_offset)
                queue.accept([Placed(*place, 0, 0, last.tag_code, b"", last.messages)])

    # -- pass 6: rebuild ----------------------------------------------------------------------------------------------

    def _rebuild(self, start: int) -> None:
        """Older entries of incomplete queues: read the log from its beginning once, for all of them together."""
        self._incomplete.update(self._queues_cut_too_short())
        if not self._incomplete:
            return
        self._forget_checkpoint()
        for topic, queue_id in sorted(self._incomplete):
            log.warning("queue is rebuilt from the log", topic=topic, queue=queue_id)
            queue = self._queues.get(topic, queue_id)
            if queue is not None:
                queue.clear()
        dispatcher = RecordDispatcher(self._queues, None, self._deleted.positions)
        for found in self._walk(self._log.start):
            if not isinstance(found, Placed):
                continue
            if found.position >= self._report.end:
                break
            if (found.topic, found.queue_id) in self._incomplete:
                dispatcher.dispatch([found])
        self._report.rebuilt = sorted(self._incomplete)

    def _keep_taken(self) -> None:
        """A queue that was written anew may end before the record that had its last offset: that one is damaged."""
        for known in self._taken:
            if known.topic in self._deleted.positions:
                continue
            queue = self._queues.get_or_make(known.topic, known.queue_id)
            if queue.next_offset < known.next_offset:
                taken = {"offset": queue.next_offset, "until": known.next_offset}
                log.error("offsets of damaged records stay taken", topic=known.topic, queue=known.queue_id, **taken)
                queue.reserve_up_to(known.next_offset)

    def _queues_cut_too_short(self) -> Iterator[tuple[str, int]]:
        """An entry was forgotten and the scan did not bring it again. If it points to where the log would go on, a
        power cut took its record; if not, it was damaged itself, and its record lies before the scan's start."""
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
        last_position = self._last.position if self._last else min(self._checkpoint.queues_position, end)
        last_time = self._last.store_time if self._last else self._checkpoint.log_time_ms
        self._log.continue_at(end, last_position, last_time)
        self._log.whole_crc = self._log.whole_crc.closed_at(
            self._last.end if self._last is not None and self._report.damaged_end else end, last_position
        )
        self._cut_derived(end)
        self._deleted.forget_outside(self._log.start, end)

    def _cut_derived(self, end: int) -> None:
        """No entry points at or beyond the end of the log, none before its start."""
        for known in self._queues.unchanged:
            if known.last and known.last[0] >= end:
                self._queues.get(known.topic, known.queue_id)  # awake, it is one of the next
        for queue in self._queues.loaded():
            last = self._last_entry(queue)
            if last is not None and last.position >= end:
                queue.discard_from(end, self._is_record)
            if self._log.start:
                queue.raise_minimum(self._log.start)
            queue.tail.readable_end = queue.next_offset
        if self._index is not None and self._index.state.covered >= end:
            self._index.discard_from(end)

    def _write_again(self, position: int, end: int) -> None:
        """After a failed sync the kernel takes pages for clean that the medium never got, so a sync by the next process
        would prove nothing: what is not known to be synced is written once more."""
        while position < end:
            data = self._log.sequence.read(position, min(_AGAIN_BYTES, end - position))
            if not data:
                return
            self._unsynced.files.update(self._log.sequence.write(position, data))
            position += len(data)
