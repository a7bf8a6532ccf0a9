"""The scan of recovery: every record from a position to the end of the log, and the decision where that end is.

`recovery.py` runs it once and dispatches what it yields. Nothing of the log is changed here.

Below the last synced position a bad record is damage: it is stepped over and reported. At or above it, it is a torn
tail and ends the log. In a store without a synced position (only Java wrote it) records behind a bad one are kept where
a queue entry confirms the first of them and store time does not go back. What is cut off is copied first: a person may
want to see it. Below pyromq/cut-off, one file a cut, named by its position. Nobody reads it again; it may be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from ... import logs
from ...kernel.records import DelayLevels, Fault, Placed
from ...protocol.record import whole_record_crc
from ..files.disk import Disk, DiskError, replace_durably
from ..files.file_sequence import FileSequence
from ..log.commit_log import CommitLog
from ..log.log_walk import Gap, LogWalk, Tail
from ..queues.queue_table import QueueTable

log = logs.get("pyromq.store")


@dataclass(slots=True, eq=False, repr=False)
class LogScan:
    """Iterate over `runs` once; `end`, `damage`, `torn` and `last` are final after that."""

    log: CommitLog
    delays: DelayLevels
    synced: int | None
    confirmed: int  # in a store of Java's, the end of the newest record that a queue entry knows
    queues: QueueTable
    end: int = field(default=0, init=False)
    records: int = field(default=0, init=False)
    damage: list[Gap] = field(default_factory=list, init=False)
    torn: Tail | None = field(default=None, init=False)
    last: Placed | None = field(default=None, init=False)

    def runs(self, start: int) -> Iterator[list[Placed]]:
        """Yield the records that belong to the log, some at a time."""
        gap: Gap | None = None
        self.end = start
        for found in LogWalk(self.log.sequence, self.delays, start, self._is_torn, self.log.whole_crc).runs():
            if isinstance(found, list):
                if gap is not None and not self._may_follow(found[0]):
                    self._end_at(gap.position, gap.reason)
                    return
                if gap is not None:
                    self.damage.append(gap)
                    log.error("damaged records are skipped", position=gap.position, until=gap.end, why=gap.reason)
                gap = None
                kept, why = self._kept(found)
                if kept:
                    self._advance(found[:kept])
                    yield found[:kept]
                if kept < len(found):
                    self._end_at(found[kept].position, why)
                    return
            elif isinstance(found, Gap):
                gap = found
            else:
                self._end_at(found.position if gap is None else gap.position, found.reason, found.leftovers)

    def _advance(self, run: list[Placed]) -> None:
        self.last = run[-1]
        self.end = run[-1].end
        self.records += len(run)

    def _end_at(self, position: int, reason: str, leftovers: bool = True) -> None:
        self.end = position
        if leftovers:
            self.torn = Tail(position, reason, True)
            log.warning("the log ends in something that is no record", position=position, why=reason)

    def _is_torn(self, fault: Fault) -> bool:
        """Return whether no record behind this fault can count: not synced by us, not known to any queue of Java's."""
        return fault.position >= (self.confirmed if self.synced is None else self.synced)

    def _may_follow(self, placed: Placed) -> bool:
        if self.synced is not None:
            return placed.position < self.synced
        confirmed = placed.end <= self.confirmed and self.queues.get(placed.topic, placed.queue_id) is not None
        return confirmed and (self.last is None or placed.store_time >= self.last.store_time)

    def _kept(self, run: list[Placed]) -> tuple[int, str]:
        """Return how many records of a run, from its first on, belong to the log, and why the next one does not."""
        last = self.last
        if run[-1].position < (self.confirmed if self.synced is None else self.synced):
            return len(run), ""
        for number, placed in enumerate(run):
            if self._is_stale(placed, last):
                return number, "a record of an older life of the log"
            if self._lost_its_end(placed):
                return number, "the last bytes of the record were never written"
            last = placed
        return len(run), ""

    def _is_stale(self, placed: Placed, last: Placed | None) -> bool:
        """Return whether these are old bytes, which Java leaves behind a truncation: their store time goes back."""
        beyond_known = self.synced is None and placed.position >= self.confirmed
        return beyond_known and last is not None and placed.store_time < last.store_time

    def _lost_its_end(self, placed: Placed) -> bool:
        """Return whether a record that was not synced ends in zeroes, which properties never do.

        A lost last sector takes the record's own CRC with it, while the CRC of its body still fits."""
        unsynced = self.synced is not None and placed.position >= self.synced
        return unsynced and placed.properties.endswith(b"\0") and whole_record_crc(placed.properties) is None


CUT_OFF_FOLDER = "pyromq/cut-off"
_PIECE = 1 << 20
_MOST = 64 << 20


def copy_truncated(disk: Disk, sequence: FileSequence, position: int) -> str | None:
    """Copy the bytes from a position on, up to the first piece that is all zero. The copy's name; None if all is zero.

    A copy that cannot be made (a full disk) is no reason not to open the store.
    """
    kept = bytearray()
    try:
        for piece in takewhile(any, sequence.pieces(position, position + _MOST, _PIECE)):
            kept += piece
        content = bytes(kept).rstrip(b"\0")
        if not content:
            return None
        name = f"{CUT_OFF_FOLDER}/{position:020d}"
        replace_durably(disk, name, content)
    except DiskError as fault:
        log.warning("what is cut off the log could not be kept aside", position=position, why=str(fault))
        return None
    log.warning("the log's end is cut off, a copy is kept", position=position, bytes=len(content), copy=name)
    return name
