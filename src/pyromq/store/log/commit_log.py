"""The commit log: records one after another in files of one length. The only writer of truth; all else is derived.

Files have all their room before they are written. A record never spans files: where the next one does not fit, a blank
record ends the file. Recovery reads through the same object before the first append. Who appends is writer.py, and a
kernel, by the `Appender`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from ... import logs
from ...kernel import state
from ...kernel.records import Placed, batch_records, place_burst, whole_places
from ...machine.descriptors import LOG_FILES
from ...model.message import SysFlag
from ...protocol.record import BLANK, BLANK_BYTES, FIXED_BYTES, HEAD, LONG, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, Record
from ..config import StoreConfig
from ..errors import RecordTooLarge
from ..files.disk import Bytes, Disk, DiskError, DiskFile, DiskFull
from ..files.file_sequence import FileSequence, IrregularFile, prepare_whole
from ..files.open_files import OpenFiles
from ..layout import COMMIT_LOG
from .whole_crc import NO_RANGES

log = logs.get("pyromq.store")


class CommitLog:
    """One writer. Invariants: `end` lies in the last file or at its end; every byte behind `end` is zero, so that no
    stale record can follow a new one; store times never go down."""

    def __init__(self, disk: Disk, config: StoreConfig, files: OpenFiles | None = None) -> None:
        self._disk = disk
        self._delays = config.delay_levels
        self._with_crc = config.whole_record_crc
        self._files = OpenFiles(disk, LOG_FILES) if files is None else files
        self.file_bytes = config.commit_log_file_bytes
        self.sequence = FileSequence(disk, self._files, COMMIT_LOG, self.file_bytes)
        self.tail = state.LogTail(self._write_at)
        self.whole_crc = NO_RANGES  # where every record has its own CRC
        self.reads_are_random = False
        self._ahead: list[int] = []  # bases of files made before they are needed

    @property
    def start(self) -> int:
        return self.tail.start

    @property
    def end(self) -> int:
        """Return where the next record goes."""
        return self.tail.end

    def load(self) -> list[IrregularFile]:
        irregular = self.sequence.load()
        self._follow_files()
        return irregular

    def _follow_files(self) -> None:
        """Note where the files begin and end: after each that came or went."""
        self.tail.start, self.tail.limit = self.sequence.start, self.sequence.limit

    def drop_before(self, start: int) -> bool:
        """Remove files in front of the log's start: retention had begun to, or a power cut brought them back."""
        dropped = False
        while len(self.sequence.bases) > 1 and self.sequence.start + self.file_bytes <= start:
            self.sequence.drop_first()
            dropped = True
        self._follow_files()
        return dropped

    def continue_at(self, end: int, last_position: int, last_time: int) -> None:
        """Append from here on: recovery found the end and cut off what was behind it."""
        self._follow_files()
        self.tail.end, self.tail.last_position, self.tail.last_time = end, last_position, last_time

    def begin_at(self, position: int) -> None:
        """Let an empty log begin at this position, where a file of it does."""
        self._remove_ahead()
        self.sequence.drop_all()
        self.continue_at(position, position, 0)

    # -- writing ------------------------------------------------------------------------------------------------------

    def place(self, records: Sequence[Record], store_time: int) -> tuple[list[bytes], list[Placed]]:
        """Return the bytes and places of records that have their queue offsets, from the log's end on."""
        return place_burst(records, self.tail.end, store_time, self._delays, self._with_crc)

    def place_batch(
        self, batch: Record, body: bytes | memoryview, offset: int, store_time: int
    ) -> tuple[bytes, list[Placed]] | None:
        """Return the bytes and places of a batch's messages, from the log's end and this queue offset on.

        None where they are to be placed one by one: a message is odd, or there is no native kernel.
        """
        if batch_records is None:
            return None
        numbers = (batch.queue_id, offset, batch.sys_flag, batch.born_timestamp, batch.reconsume_times)
        hosts = (batch.born_host, batch.store_host)
        made = batch_records(body, batch.topic.encode(), (*numbers, self.tail.end, store_time), *hosts, self._with_crc)
        if made is None:
            return None
        places, _ = whole_places(made, self.tail.end)
        return (made, places) if places and places[-1].end == self.tail.end + len(made) else None

    def open_end(self) -> None:
        """Open the file that is written: from the first byte of an append on nothing may be wanting."""
        end = self.tail.end
        if not self.tail.holds(end) and self.sequence.has(end):
            file, inside = self.sequence.file_at(end)
            self._use(file, end - inside)

    def _use(self, file: DiskFile, base: int) -> None:
        """Let a kernel write to that file by itself from here on."""
        self.tail.use(file.open_file, base, base + self.file_bytes)

    def _write_at(self, position: int, records: Bytes) -> None:
        file, inside = self.sequence.file_at(position)
        file.pwrite(inside, records)
        if not self.tail.holds(position):
            self._use(file, position - inside)

    def split(self, buffers: Sequence[bytes], together: bool) -> list[int]:
        """Return how many records go into this file, the next, and so on. The first number may be 0.

        `together`: a batch, which Java never spreads over two files.
        """
        total = sum(map(len, buffers))
        if total <= self.tail.room:
            return [len(buffers)]
        sizes = [total] if together else [len(raw) for raw in buffers]
        if max(sizes) + BLANK_BYTES > self.file_bytes:
            raise RecordTooLarge(
                f"{'the batch' if together else 'the record'} takes {max(sizes)} bytes, a commit log file has room for "
                f"{self.file_bytes - BLANK_BYTES}: send less at once, or raise mappedFileSizeCommitLog"
            )
        runs, room = [0], self.tail.limit - self.tail.end
        for size in sizes:
            if size + BLANK_BYTES > room:
                runs.append(0)
                room = self.file_bytes
            runs[-1] += len(buffers) if together else 1
            room -= size
        return runs

    def roll(self) -> None:
        """End this file with a blank record and go on in the next, which exists."""
        room = self.tail.limit - self.tail.end
        if room > 0:  # negative: the first file of a log that begins above 0
            file, inside = self.sequence.file_at(self.end)
            file.pwrite(inside, BLANK.pack(room, MAGIC_BLANK))
        self.tail.end = self._ahead.pop(0)
        self.sequence.bases.append(self.end)
        self._follow_files()

    # -- files ahead --------------------------------------------------------------------------------------------------

    @property
    def has_file_ahead(self) -> bool:
        return bool(self._ahead)

    @property
    def next_base(self) -> int | None:
        """Return the base of the file that should be made ahead now; None while one is waiting."""
        return None if self._ahead else self._base_after()

    def _base_after(self) -> int:
        if self._ahead:
            return self._ahead[-1] + self.file_bytes
        return self.sequence.limit if self.sequence.bases else self.sequence.base_of(self.end)

    def make_file(self, base: int) -> None:
        """Make a file, in a helper thread: room for all of it, synced. `adopt` follows in the writer's thread."""
        try:
            prepare_whole(self._disk, self.sequence.name(base), self.file_bytes)
        except DiskFull as fault:
            if self.sequence.bases:  # from the first file on the size is what it is
                raise DiskFull(f"{fault}: a log file takes {self.file_bytes} (mappedFileSizeCommitLog)") from fault
            raise DiskFull(f"{fault}, or start with a lower mappedFileSizeCommitLog: nothing is stored yet") from fault

    def adopt(self, base: int) -> None:
        if base == self._base_after():
            self._ahead.append(base)

    def make_ahead(self, count: int) -> None:
        """Make the files that an append needs and that nobody made yet, before anything is written."""
        while len(self._ahead) < count:
            base = self._base_after()
            self.make_file(base)
            self.adopt(base)

    @property
    def has_older(self) -> bool:
        """Return whether there is a file that may go: the one that is written never does."""
        return len(self.sequence.bases) > 1

    def drop_oldest(self) -> None:
        self.sequence.drop_first()
        self._follow_files()

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of one file; fewer where it ends."""
        if not self.sequence.has(position):
            return b""
        return self.sequence.read(position, min(length, self.file_bytes - position % self.file_bytes))

    def read_resident(self, position: int, length: int) -> bytes | None:
        """Return bytes without waiting for the medium: None if a part is not in the page cache, or cannot be read."""
        file, inside = self.sequence.file_at(position)
        try:
            return file.pread_resident(inside, length)
        except DiskError:
            return None

    def expect_random_reads(self, random: bool) -> None:
        """Set whether the system shall not read ahead: right for consumers far behind in many queues."""
        self.reads_are_random = random
        self._files.expect_random(random)

    def read_apart(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read in a helper thread, with descriptors of its own, so that none is closed under it."""
        files: dict[int, DiskFile] = {}
        parts = []
        with ExitStack() as opened:
            for position, length in ranges:
                base = self.sequence.base_of(position)
                try:
                    if base not in files:
                        name = self.sequence.name(base)
                        files[base] = opened.enter_context(closing(self._disk.open(name, writable=False)))
                        files[base].expect_random(self.reads_are_random)
                    parts.append(files[base].pread(position - base, length))
                except DiskError as fault:  # expired meanwhile, or the medium fails: the records count as damaged
                    log.error("part of the commit log cannot be read", position=position, why=str(fault))
                    parts.append(b"")
        return parts

    def store_time_at(self, position: int) -> int | None:
        """Return the store time of the record at a position; None if there is none."""
        raw = self.read(position, FIXED_BYTES)
        if len(raw) < FIXED_BYTES:
            return None
        _, magic, _, _, _, _, own, sys_flag, _ = HEAD.unpack_from(raw)
        if magic not in (MAGIC_V1, MAGIC_V2) or own != position:
            return None
        at = HEAD.size + (20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
        return int(LONG.unpack_from(raw, at)[0])

    # -- sync and close -----------------------------------------------------------------------------------------------

    def names_between(self, low: int, high: int) -> list[str]:
        """Return the files that hold any byte of a range: what a flush up to `high` has to sync."""
        first = self.sequence.base_of(low)
        return [self.sequence.name(base) for base in self.sequence.bases if first <= base < high]

    def close(self) -> None:
        """Close, and remove the file made ahead, as Java does when it stops."""
        self._remove_ahead()
        self._files.close()

    def _remove_ahead(self) -> None:
        for base in self._ahead:
            self._disk.remove(self.sequence.name(base))
        self._ahead.clear()
