"""Following a master's log: its bytes are appended at our end as they are, record by record, each looked at first.

A slave's part of the store; broker/replication calls it with what the stream brings. The bytes come in pieces that may
cut a record: the log ends behind a whole record at any time, and what has come of the next one waits in memory. So
flush marks, checkpoint and recovery are those of any store, and a crash costs nothing that was reported. The bytes that
a master sends behind the blank record of a file's end mean nothing and are not kept: zeroes stand there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...kernel.records import DelayLevels, Fault, Placed, check_at
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
    _waiting: bytearray = field(default_factory=bytearray, init=False)  # what has come of the next record
    _wanted: int = field(default=0, init=False)  # how many bytes that has, if it is known
    _padding: int = field(default=0, init=False)  # bytes of a blank record, up to its file's end, still to come

    @property
    def position(self) -> int:
        """Return where the next byte of the stream belongs."""
        return self.log.tail.limit - self._padding if self._padding else self.log.end + len(self._waiting)

    def restart(self) -> None:
        """Forget what has come of a record: the stream begins anew, at the log's end."""
        self._waiting, self._wanted, self._padding = bytearray(), 0, 0

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
        if self._waiting:
            self._waiting += data
            if len(self._waiting) < self._wanted:
                return
        view = memoryview(self._waiting or data)
        self._wanted = at = 0
        while used := self._take_some(view[at:]):
            at += used
        self._waiting = bytearray(view[at:])

    def _take_some(self, view: memoryview) -> int:
        """Take what is whole at the beginning of these bytes, within one file, and return how long it was."""
        if not self._padding:
            if len(view) < BLANK_BYTES:
                return 0
            if not self.log.sequence.has(self.log.end):
                self.writer.next_file()
            room = self.log.tail.limit - self.log.end
            size, magic = BLANK.unpack_from(view)
            if magic != MAGIC_BLANK or size != room:
                return self._take_plain(view[:room]) or self._take_one(view[:room], room)
            self._padding = room
        return self._skip_padding(len(view))

    def _skip_padding(self, most: int) -> int:
        skipped = min(self._padding, most)
        if skipped == self._padding:
            self.writer.next_file()
        self._padding -= skipped
        return skipped

    def _take_plain(self, view: memoryview) -> int:
        """Let the kernel take records of one kind: in the range of those with a CRC of their own, or outside of it."""
        in_range = self.log.whole_crc.open_from is not None
        if in_range and not self.notes_crc:
            return 0
        used: int = self.writer.follow.take(view, in_range if self.notes_crc else None)
        return used

    def _take_one(self, view: memoryview, room: int) -> int:
        """Take the record here, if it is whole: what a kernel has left is looked at one by one."""
        end = self.log.end
        size, magic = BLANK.unpack_from(view)
        if magic not in (MAGIC_V1, MAGIC_V2) or not FIXED_BYTES <= size <= room:
            raise NotFollowed(
                f"no record begins at {end}: size {size}, magic {magic & 0xFFFFFFFF:#010x}, {room} bytes to the end of "
                "the file. Does the master have the same mappedFileSizeCommitLog?"
            )
        if size > len(view):
            self._wanted = size
            return 0
        found = check_at(view, 0, end, self.delays)
        if isinstance(found, Fault):
            raise NotFollowed(f"the record at {end} is damaged: {found.reason}")
        if size + BLANK_BYTES > room:
            raise NotFollowed(f"the record at {end} leaves no room for the end of its file")
        if found.in_queue and not self.writer.may_have(found):
            raise NotFollowed(
                f"the record at {end} is damaged: it says that it is message {found.queue_offset} of queue "
                f"{found.queue_id} of {found.topic}, which cannot be"
            )
        self._note_crc(found)
        self.writer.take(view[:size], found)
        return found.size

    def _note_crc(self, placed: Placed) -> None:
        """Write down where records begin to have their own CRC, or cease to, durably before they are appended."""
        ranges = self.log.whole_crc
        sealed = self.notes_crc and whole_record_crc(placed.properties) is not None
        if sealed == (ranges.open_from is not None):
            return
        if sealed:
            ranges = ranges.opened_at(self.log.end, self.log.start)
        else:
            ranges = ranges.closed_at(self.log.end, self.log.tail.last_position)
        save_ranges(self.disk, ranges)
        self.log.whole_crc = ranges
