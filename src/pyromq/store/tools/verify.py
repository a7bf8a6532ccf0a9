"""`store verify`: walk everything in a store and say what is wrong, where, and what to do. Changes nothing.

It is the oracle of the crash tests, so it takes nothing on trust that recovery computed: queues, index and small
files are compared with the records of the log, one by one. Passes: 1 files, 2 the log with its queues and index,
3 what queues and index hold beyond it, 4 the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...kernel.records import Fault, Placed
from ..config import StoreConfig
from ..cutting import CUT_MARK, read_cut_mark
from ..errors import StoreDamaged
from ..files.disk import Disk, DiskError
from ..files.file_sequence import FileSequence
from ..files.open_files import OpenFiles
from ..files.read_only import read_only
from ..layout import COMMIT_LOG
from ..log.deleted_topics import read_deleted
from ..log.log_walk import Gap, LogWalk, Tail
from ..log.whole_crc import WHOLE_CRC_FILE, are_ranges_readable, ranges_that_count
from ..recovery.catalogue import CATALOGUE_FILE, read_catalogue
from ..recovery.checkpoint import (
    CHECKPOINT_FILE,
    SYNCED_FILE,
    Checkpoint,
    checkpoint_fault,
    is_synced_position_readable,
)
from ..recovery.claim import LOCK_FILE, refuse_unknown_kinds
from ..recovery.derived_files import DERIVED_FILE, damaged_lines
from ..recovery.missing_files import MissingQueues
from ..recovery.store_state import TABLE_REMEDY, StoreState, missing_log, read_store_state
from ..tables.json_tables import TableDamaged, read_table, table_names
from .findings import OPEN, Level, Report
from .verify_index import IndexChecks
from .verify_queues import QueueChecks

Progress = Callable[[int, int], None]  # position reached, position of the end

_PROGRESS_BYTES = 8 << 20


def verify_store(disk: Disk, config: StoreConfig, progress: Progress = lambda position, end: None) -> Report:
    """Verify the store. Blocking; memory does not grow with the store. Raises UnknownStoreKind."""
    return _Verification(read_only(disk), config, progress).run()


class _Verification:
    def __init__(self, disk: Disk, config: StoreConfig, progress: Progress) -> None:
        refuse_unknown_kinds(disk)
        self._disk = disk
        self._config = config
        self._progress = progress
        self._report = Report(in_use=disk.is_locked(LOCK_FILE))
        self._gaps: list[Gap] = []
        self._newest_ms = 0  # store time of the newest record
        self._files = OpenFiles(disk, 16)
        self._log = FileSequence(disk, self._files, COMMIT_LOG, config.commit_log_file_bytes)
        self._state = read_store_state(disk)
        self._deleted = read_deleted(disk)

    def run(self) -> Report:
        if self._is_being_cut():
            return self._report
        self._check_missing()
        self._check_files()
        check_state_files(self._disk, self._state, self._report)
        self._queues = QueueChecks(self._disk, self._config, self._report, MissingQueues(self._disk, self._state))
        self._index = IndexChecks(self._disk, self._config, self._report, self._state, self._log.start)
        self._walk()
        self._check_state()
        known_topics = self._check_tables()
        self._queues.finish(self._report.log_start, self._report.log_end, self._gaps, known_topics)
        self._index.finish(self._report.log_end, self._gaps)
        self._files.close()
        return self._report

    def _is_being_cut(self) -> bool:
        """Report a cut of the log that was begun: until it is finished nothing else fits together."""
        try:
            mark = read_cut_mark(self._disk)
        except StoreDamaged as fault:
            self._report.add(Level.DAMAGE, CUT_MARK, None, str(fault), "see docs/store.md, Cutting a log")
            return True
        if mark is not None:
            what = f"the log is being cut to {mark.position}, and nothing else was looked at"
            self._report.add(Level.REPAIRABLE, CUT_MARK, None, what, "open the store: it is finished")
        return mark is not None

    # Pass 1

    def _check_missing(self) -> None:
        """Report parts of the log that are gone as a whole. What leads there counts as leading to damage."""
        self._missing = missing_log(self._disk, self._config, self._state)
        for one in self._missing:
            what = f"{one.end - one.start} bytes from {one.start} to {one.end} were synced and have no file any more"
            remedy = (
                "is a disk not mounted? Put the files back from a backup or a slave; the broker does not start without "
                f"them, unless `pyromq store accept-loss {self._disk.root}` says that they are gone for good"
            )
            self._report.add(Level.DAMAGE, *self._place(one.start), what, remedy)
            self._gaps.append(Gap(one.start, one.end, "the file is missing"))

    def _check_files(self) -> None:
        for irregular in self._log.load():
            if irregular.base < 0:
                self._report.add(Level.NOTE, irregular.name, None, irregular.what, "look at it; it is not used")
            elif any(one.start <= irregular.base < one.end for one in self._missing) or self._is_cut(irregular.name):
                continue  # said already
            elif "missing" in irregular.what and self._never_synced_before(irregular.base):
                what = "files before it are missing; nothing in them was synced"
                self._report.add(Level.REPAIRABLE, irregular.name, None, what, OPEN)
            elif "missing" in irregular.what:
                what = "files before it are missing, with all records that were in them"
                self._report.add(Level.DAMAGE, irregular.name, None, what, "put them back from a backup or a slave")
            else:
                self._report.add(Level.REPAIRABLE, irregular.name, None, irregular.what, OPEN)
        if not self._state.clean_stop and not self._disk.is_locked(LOCK_FILE):
            self._report.add(Level.REPAIRABLE, "abort", None, "the broker was not stopped cleanly", OPEN)

    def _is_cut(self, name: str) -> bool:
        return any(self._log.name(self._log.base_of(one.start)) == name for one in self._missing)

    def _never_synced_before(self, base: int) -> bool:
        """Return whether the files missing in front of this one were never synced.

        A power cut may keep the name of a later file and not that of an earlier one.
        """
        if self._state.synced is None or self._state.clean_stop:
            return False
        there = [one for one in self._log.bases if one < base]
        return self._state.synced <= (max(there) + self._log.file_bytes if there else 0)

    def _check_state(self) -> None:
        end, checkpoint, synced = self._report.log_end, self._state.checkpoint, self._state.synced
        if self._missing:  # said already
            self._gaps.append(Gap(end, max(one.end for one in self._missing), "the file is missing"))
            return
        if checkpoint.queues_position > end:
            what = f"it speaks of position {checkpoint.queues_position}, the log ends at {end}"
            self._report.add(Level.REPAIRABLE, CHECKPOINT_FILE, 40, what, OPEN)
        if self._report.records and not self._gaps:
            check_times(checkpoint, self._newest_ms, self._report)
        if synced is not None and synced > end:
            what = f"the log was synced up to {synced}, but its records end at {end}: the last ones are damaged"
            remedy = "pulls skip them, the log goes on behind them; a backup or a slave may still have them"
            self._report.add(Level.DAMAGE, COMMIT_LOG, end, what, remedy)
            self._gaps.append(Gap(end, synced, "the end of the log is gone"))

    # Pass 2

    def _walk(self) -> None:
        whole_crc = ranges_that_count(self._disk, self._config, self._state.ours)
        walk = LogWalk(self._log, self._config.delay_levels, ends_at=self._is_unused, whole_crc=whole_crc)
        self._report.log_start = self._report.log_end = self._log.start
        gap: Gap | None = None
        last_time, reported = 0, 0
        for found in walk:
            if isinstance(found, Tail):
                self._end_of_log(found)
                return
            if isinstance(found, Gap):
                gap = found
                continue
            if gap is not None and not self._is_damage(gap, found):
                return
            self._report.records += 1
            self._report.log_end = found.end
            if found.store_time < last_time and found.position % self._log.file_bytes:
                what = f"store time goes back from {last_time} to {found.store_time}"
                self._note(found.position, what, "nothing: the clock stepped back; searches by time may be off here")
            last_time = found.store_time
            self._newest_ms = max(self._newest_ms, last_time)
            level = self._level_of_missing(found.position)
            if found.in_queue and found.position >= self._deleted.get(found.topic, 0):
                self._queues.check(found, level, gap is not None or bool(self._gaps))
            self._index.check(found, level, self._gaps)
            gap = None
            if found.position - reported >= _PROGRESS_BYTES:
                reported = found.position
                self._progress(found.position, self._likely_end(found.position))

    def _likely_end(self, position: int) -> int:
        """Return where the log ends as far as its small files say: most of the last file may be room for later."""
        known = max(self._state.synced or 0, self._state.checkpoint.queues_position)
        return known if known > position else self._log.limit

    def _is_unused(self, fault: Fault) -> bool:
        """Return whether nothing was written from here on: the rest of the file, up to a gigabyte, is not searched.

        That is known behind what was synced, of a store of ours that was stopped cleanly or that a broker runs on. In
        others the walk leaves out what the file system knows to be a hole.
        """
        if not fault.is_end or self._state.synced is None or fault.position < self._state.synced:
            return False
        return self._state.ours and (self._state.clean_stop or self._disk.is_locked(LOCK_FILE))

    def _is_damage(self, gap: Gap, following: Placed) -> bool:
        """Return whether records behind the bad bytes count; if not, the log ends there."""
        below_synced = self._state.synced is not None and following.position < self._state.synced
        if below_synced or (self._state.synced is None and self._queues.confirms(following)):
            if any(one.start <= gap.position and gap.end <= one.end for one in self._missing):
                return True  # said already
            self._gaps.append(gap)
            what = f"{gap.end - gap.position} bytes are no record: {gap.reason}"
            remedy = "they are lost, pulls skip them; a backup or a slave may still have them"
            self._report.add(Level.DAMAGE, *self._place(gap.position), what, remedy)
            return True
        what = f"the log ends with bytes that are no record ({gap.reason}) and leftovers behind them"
        self._report.add(Level.REPAIRABLE, *self._place(gap.position), what, OPEN)
        return False

    def _end_of_log(self, tail: Tail) -> None:
        # Behind a blank record the end is the start of the next file, whose room is all zeroes.
        self._report.log_end = max(self._report.log_end, tail.position)
        if tail.leftovers and (self._state.synced is None or tail.position >= self._state.synced):
            what = f"the log ends with bytes that are no whole record: {tail.reason}"
            self._report.add(Level.REPAIRABLE, *self._place(tail.position), what, OPEN)

    def _level_of_missing(self, position: int) -> Level:
        """Return how bad a missing entry is: what recovery dispatches again anyway is no loss."""
        return (
            Level.REPAIRABLE
            if not self._state.clean_stop and position >= self._state.checkpoint.queues_position
            else Level.DAMAGE
        )

    def _place(self, position: int) -> tuple[str, int]:
        return self._log.name(self._log.base_of(position)), position % self._log.file_bytes

    def _note(self, position: int, what: str, remedy: str) -> None:
        self._report.add(Level.NOTE, *self._place(position), what, remedy)

    # Pass 4

    def _check_tables(self) -> list[str] | None:
        """Check the tables, and return the topics' names, or None if the table of topics is not there."""
        topics: list[str] | None = None
        for name in self._state.missing_tables:
            what = "it was there at the last clean stop; it is gone, with its .bak, and the broker does not start"
            self._report.add(Level.DAMAGE, name, None, what, TABLE_REMEDY)
        for name in table_names(self._disk):
            self._report.tables += 1
            try:
                found = read_table(self._disk, name, quiet=True)
            except (TableDamaged, DiskError) as damage:
                remedy = "put a good copy back" if isinstance(damage, TableDamaged) else "make it readable"
                self._report.add(Level.DAMAGE, name, None, str(damage), remedy)
                continue
            if not found.is_current:
                what = "it cannot be read, its .bak can; the last changes may be missing"
                self._report.add(Level.REPAIRABLE, name, None, what, "open the store: the .bak is used")
            if name == "config/topics.json":
                topics = list(found.content.get("topicConfigTable") or {})
        return topics


_GONE = "it is gone"
_UNREADABLE = "it cannot be read"


def check_state_files(disk: Disk, state: StoreState, report: Report) -> None:
    for name, what in _faults(disk, state):
        report.add(Level.REPAIRABLE, name, None, what, OPEN)


def _faults(disk: Disk, state: StoreState) -> Iterator[tuple[str, str]]:
    has_synced = disk.exists(SYNCED_FILE)
    if disk.exists(CHECKPOINT_FILE):
        fault = checkpoint_fault(disk)
        if fault is not None:
            yield CHECKPOINT_FILE, fault
    elif has_synced:  # a store that was just begun, of any broker, may have none
        yield CHECKPOINT_FILE, _GONE
    if has_synced and not is_synced_position_readable(disk):
        yield SYNCED_FILE, _UNREADABLE
    elif not has_synced and state.catalogue is not None:
        yield SYNCED_FILE, _GONE
    # None at all is right where a broker of ours was killed in its first life and Java went on.
    if disk.exists(CATALOGUE_FILE) and read_catalogue(disk) is None:
        yield CATALOGUE_FILE, _UNREADABLE
    if not are_ranges_readable(disk):
        yield WHOLE_CRC_FILE, f"{_UNREADABLE}: whether a record lost its own CRC is not known for older ones"
    if damaged_lines(disk):
        yield DERIVED_FILE, f"{damaged_lines(disk)} lines of it cannot be read"


def check_times(checkpoint: Checkpoint, newest_ms: int, report: Report) -> None:
    """Report a checkpoint that is ahead of the log. `newest_ms`: store time of the newest record."""
    claimed = max(checkpoint.log_time_ms, checkpoint.queues_time_ms, checkpoint.index_time_ms)
    if claimed > newest_ms:
        what = f"it speaks of a record of the time {claimed}, the newest one in the log is of {newest_ms}"
        report.add(Level.REPAIRABLE, CHECKPOINT_FILE, 0, what, OPEN)
