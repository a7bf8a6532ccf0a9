"""The timer wheel: by second (or finer), the chain of units that wait for it. Java's file `timerwheel`.

A change stays in memory until `write_out`, which `timer_store.py` calls once the log that it points to is on the
medium: so the file never points to what a power cut can take. In memory there is a byte for each slot, whatever waits.
`checksum` goes with every change, so that a file which was damaged is noticed when it is loaded. Blocking, one caller
at a time.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ..files.disk import Disk, DiskFile

NAME = "timerwheel"
SLOTS = 2 * 7 * 24 * 3600  # as Java: two weeks of seconds

# | time, in precisions 8 | first unit 8 | last unit 8 | messages 4 | 0 4 |
SLOT = struct.Struct(">qqqii")
_BLOCK_SLOTS = 2048
_SUMMED = struct.Struct(">qqq")


class Slot(NamedTuple):
    """`tick` is the time in units of the precision. `messages` counts a recall as minus one."""

    tick: int
    first: int
    last: int
    messages: int

    @property
    def checksum(self) -> int:
        """Never 0, so that a slot that is gone shows. Without `messages`: a power cut may leave those of before."""
        return 1 << 32 | zlib.crc32(_SUMMED.pack(self.tick, self.first, self.last))


class WheelUnfit(Exception):
    """The file is no wheel of this size: it is made anew from the log's records."""


class TimerWheel:
    """Invariant: pending ticks lie within one turn of the wheel, so that no two share a slot."""

    def __init__(self, disk: Disk, slots: int = SLOTS) -> None:
        self._disk = disk
        self.slots = slots
        self._file: DiskFile | None = None
        self._marks = bytearray(slots)
        self._changed: dict[int, Slot] = {}
        self.checksum = 0  # the sum of those of all pending slots

    def load(self, read_tick: int, log_end: int) -> int:
        """Take in what is pending; how many messages. WheelUnfit if there is no such file, or not of that size."""
        if not self._disk.exists(NAME) or self._disk.size(NAME) != self.slots * SLOT.size:
            raise WheelUnfit(f"{NAME} is missing or has another size")
        self._file = self._disk.open(NAME)
        waiting = 0
        for index, slot in self._stored():
            if slot.tick < read_tick:
                continue
            if slot.tick % self.slots != index or not 0 <= slot.last < log_end or slot.tick >= read_tick + self.slots:
                raise WheelUnfit(f"{NAME}: slot {index} points to {slot.last}, the timer log ends at {log_end}")
            self._marks[index] = 1
            self.checksum += slot.checksum
            waiting += slot.messages
        return waiting

    def _stored(self) -> Iterator[tuple[int, Slot]]:
        assert self._file is not None
        size = _BLOCK_SLOTS * SLOT.size
        empty = bytes(size)
        for start in range(0, self.slots, _BLOCK_SLOTS):
            block = self._file.pread(start * SLOT.size, size)
            if block == empty[: len(block)]:
                continue
            for number, (tick, first, last, messages, _) in enumerate(SLOT.iter_unpack(block)):
                if tick:
                    yield start + number, Slot(tick, first, last, messages)

    def create(self) -> None:
        """A new one with nothing in it. Its name is durable when this returns."""
        if self._file is not None:
            self._file.close()
        self._file = self._disk.open(NAME, create=True)
        self._file.truncate(0)
        self._file.truncate(self.slots * SLOT.size)
        self._file.sync()
        self._disk.sync_folder("")
        self._marks = bytearray(self.slots)
        self._changed.clear()
        self.checksum = 0

    # -- slots --------------------------------------------------------------------------------------------------------

    def get(self, tick: int) -> Slot | None:
        """Return None if nothing waits for it."""
        index = tick % self.slots
        slot = self._changed.get(index)
        if slot is None and self._marks[index] and self._file is not None:
            slot = Slot(*SLOT.unpack(self._file.pread(index * SLOT.size, SLOT.size))[:4])
        return slot if slot is not None and slot.tick == tick else None

    def put(self, slot: Slot, before: Slot | None) -> None:
        """`before` is what `get` said of its tick."""
        index = slot.tick % self.slots
        self.checksum += slot.checksum - (0 if before is None else before.checksum)
        self._changed[index] = slot
        self._marks[index] = 1

    def replay(self, tick: int, position: int, is_delete: bool) -> None:
        """A unit of the log that the file may or may not know: the chain grows by position, so that can be told."""
        slot = self.get(tick)
        if slot is not None and slot.last >= position:
            return
        first, messages = (position, 0) if slot is None else (slot.first, slot.messages)
        self.put(Slot(tick, first, position, messages + (-1 if is_delete else 1)), slot)

    def clear(self, tick: int) -> Slot | None:
        """It is done; what it was. The file keeps it, as Java's does: it ends by the time that was read up to."""
        slot = self.get(tick)
        if slot is not None:
            self.checksum -= slot.checksum
        self._marks[tick % self.slots] = 0
        return slot

    def checksum_from(self, first: int, start: int) -> int:
        """Of what is pending from `start` on, where everything that is pending is from `first` on."""
        checksum = self.checksum
        while first < start and (tick := self.next_tick(first)) is not None and tick < start:
            slot = self.get(tick)
            checksum -= 0 if slot is None else slot.checksum
            first = tick + 1
        return checksum

    def next_tick(self, after: int) -> int | None:
        """Return the first that something waits for, from this one on."""
        start = after % self.slots
        index = self._marks.find(1, start)
        if index < 0:
            index = self._marks.find(1, 0, start)
        if index < 0:
            return None
        return after + (index - start) % self.slots

    def counts(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return the next ticks that something waits for, with the number of messages."""
        found: list[tuple[int, int]] = []
        tick = self.next_tick(after)
        while tick is not None and len(found) < limit:
            slot = self.get(tick)
            found.append((tick, 0 if slot is None else slot.messages))
            later = self.next_tick(tick + 1)
            tick = later if later is not None and tick < later < after + self.slots else None
        return found

    # -- the file -----------------------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def write_out(self) -> None:
        """Into the file. Only when the units that the slots point to are on the medium."""
        if not self._changed:
            return
        if self._file is None:
            self.create_empty_file_for_changes()
        assert self._file is not None
        for index, slot in sorted(self._changed.items()):
            self._file.pwrite(index * SLOT.size, SLOT.pack(*slot, 0))
        self._changed.clear()

    def create_empty_file_for_changes(self) -> None:
        """The first change of a store's life makes the file; until then a broker without timers has none."""
        changed, marks, checksum = dict(self._changed), self._marks, self.checksum
        self.create()
        self._changed, self._marks, self.checksum = changed, marks, checksum

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
