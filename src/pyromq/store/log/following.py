"""Following a master's log: its bytes are appended at our end as they are, record by record, each looked at first.

A slave's part of the store; broker/replication calls it with what the stream brings. The bytes come in pieces that may
cut a record: the log ends behind a whole record at any time, and what has come of the next one waits in memory. So
flush marks, checkpoint and recovery are those of any store, and a crash costs nothing that was reported. The bytes that
a master sends behind the blank record of a file's end mean nothing and are not kept: zeroes stand there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...kernel.records import DelayLevels, Fault, Placed, check_at, whole_places
from ...protocol.record import BLANK, BLANK_BYTES, FIXED_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, whole_record_crc
from ..errors import StoreError
from ..files.disk import Bytes, Disk
from ..recovery.checkpoint import SyncedFile
from .commit_log import CommitLog
from .watermarks import Watermarks
from .whole_crc import save_ranges
from .writer import Writer


class NotFollowed(StoreError):
    """What the master sent cannot stand at the end of this log. Nothing from there on was taken. Names the place."""


@dataclass(slots=True, eq=False, repr=False)
class Following:
    """Event loop only, and the only writer while it is used. `restart` before each stream."""

    disk: Disk
    log: CommitLog
    writer: Writer
    watermarks: Watermarks
    synced: SyncedFile
    delays: DelayLevels
    notes_crc: bool  # write down where records have their own CRC
    _waiting: bytes = field(default=b"", init=False)  # what has come of the next record
    _padding: int = field(default=0, init=False)  # bytes of a blank record, up to its file's end, still to come

    @property
    def position(self) -> int:
        """Return where the next byte of the stream belongs."""
        return self.log.tail.limit - self._padding if self._padding else self.log.end + len(self._waiting)

    def restart(self) -> None:
        """Forget what has come of a record: the stream begins anew, at the log's end."""
        self._waiting, self._padding = b"", 0

    def begin_at(self, position: int) -> None:
        """Let an empty log begin where a file of the master's does. Blocking, and short."""
        if self.log.end > self.log.start:
            raise NotFollowed(f"the log reaches from {self.log.start} to {self.log.end}: it cannot begin at {position}")
        if position % self.log.file_bytes:
            raise NotFollowed(
                f"the master's log begins at {position}, where no file of {self.log.file_bytes} bytes begins: set "
                "mappedFileSizeCommitLog as it is there"
            )
        if position != self.log.end:
            self.synced.raise_start(position)  # first: nobody shall miss the files before it
            self.log.begin_at(position)
            self.watermarks.begin_at(position)
        self.restart()

    def take(self, position: int, data: Bytes) -> None:
        """Take bytes of the master's log. Raises NotFollowed, DiskFull (ask for them again later) or StoreNotWritable.

        After any of these the stream has to begin anew."""
        if position != self.position:
            raise NotFollowed(f"the master goes on at {position}, but the next byte of this log is {self.position}")
        view = memoryview(self._waiting + bytes(data) if self._waiting else data)
        at = 0
        while used := self._take_some(view[at:]):
            at += used
        self._waiting = bytes(view[at:])

    def _take_some(self, view: memoryview) -> int:
        """Take what is whole at the beginning of these bytes, within one file, and return how long it was."""
        if not self._padding:
            if len(view) < BLANK_BYTES:
                return 0
            if not self.log.sequence.has(self.log.end):
                self.writer.next_file()
            room = self.log.tail.limit - self.log.end
            places = self._whole(view[:room], room)
            if places:
                self._append(view[: places[-1].end - self.log.end], places)
                return places[-1].end - places[0].position
            if BLANK.unpack_from(view)[1] != MAGIC_BLANK:
                return 0
            self._padding = room
        return self._skip_padding(len(view))

    def _skip_padding(self, most: int) -> int:
        skipped = min(self._padding, most)
        if skipped == self._padding:
            self.writer.next_file()
        self._padding -= skipped
        return skipped

    def _whole(self, view: memoryview, room: int) -> list[Placed]:
        """Return the whole records at the beginning; none: more has to come, or a blank record stands there."""
        end = self.log.end
        places, _ = whole_places(view, end) if len(view) >= FIXED_BYTES else ([], 0)
        if not places:
            places = self._one(view, room)
        if places and places[-1].end + BLANK_BYTES > end + room:
            raise NotFollowed(f"the record at {places[-1].position} leaves no room for the end of its file")
        return places

    def _one(self, view: memoryview, room: int) -> list[Placed]:
        """Return the record here, if it is whole: delayed messages and batches are looked at one by one."""
        end = self.log.end
        size, magic = BLANK.unpack_from(view)
        if magic == MAGIC_BLANK and size == room:
            return []
        if magic not in (MAGIC_V1, MAGIC_V2) or not FIXED_BYTES <= size <= room:
            raise NotFollowed(
                f"no record begins at {end}: size {size}, magic {magic & 0xFFFFFFFF:#010x}, {room} bytes to the end of "
                "the file. Does the master have the same mappedFileSizeCommitLog?"
            )
        if size > len(view):
            return []
        found = check_at(view, 0, end, self.delays)
        if isinstance(found, Fault):
            raise NotFollowed(f"the record at {end} is damaged: {found.reason}")
        return [found]

    def _append(self, records: memoryview, places: Sequence[Placed]) -> None:
        """Append in runs: of one store time, in which the offsets of each queue go on without a break."""
        begin, start = 0, places[0].position
        expected: dict[tuple[str, int], int] = {}
        for number, placed in enumerate(places):
            key = (placed.topic, placed.queue_id)
            breaks = placed.in_queue and expected.get(key, placed.queue_offset) != placed.queue_offset
            if breaks or placed.store_time != places[begin].store_time:
                self._append_run(records, places[begin:number], start)
                begin, expected = number, {}
            if placed.in_queue:
                expected[key] = placed.queue_offset + placed.messages
        self._append_run(records, places[begin:], start)

    def _append_run(self, records: memoryview, run: Sequence[Placed], start: int) -> None:
        self._note_crc(run)
        self.writer.take(records[run[0].position - start : run[-1].end - start], run)

    def _note_crc(self, run: Sequence[Placed]) -> None:
        """Write down where records begin to have their own CRC, or cease to, durably before they are appended."""
        ranges = self.log.whole_crc
        sealed = self.notes_crc and all(whole_record_crc(placed.properties) is not None for placed in run)
        if sealed == (ranges.open_from is not None):
            return
        if sealed:
            ranges = ranges.opened_at(self.log.end, self.log.start)
        else:
            ranges = ranges.closed_at(self.log.end, self.log.tail.last_position)
        save_ranges(self.disk, ranges)
        self.log.whole_crc = ranges
