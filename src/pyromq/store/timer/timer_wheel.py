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
        """Return a checksum that is never 0. `messages` is left out: a power cut may leave an older count."""
        return 1 << 32 | zlib.crc32(_SUMMED.pack(self.tick, self.first, self.last))


class WheelUnfit(Exception):
    """The file is no wheel of this size: it is made anew from the log's records."""


class TimerWheel:
    """Invariant: pending ticks lie within one turn of the wheel, so that no two share a slot."""

    def __init__(self, disk: Disk, slots: int = SLOTS) -> None:
        self._disk = disk
        self.slots = slots
        self._file: DiskFile | None = None
        self._pending = bytearray(slots)
        self._changed: dict[int, Slot] = {}
        self.checksum = 0  # the sum of those of all pending slots

    def load(self, read_tick: int, log_end: int) -> int:
        """Load what is pending, and return how many messages. WheelUnfit if the file is missing or does not fit."""
        if not self._disk.exists(NAME) or self._disk.size(NAME) != self.slots * SLOT.size:
            raise WheelUnfit(f"{NAME} is missing or has another size")
        file = self._file = self._disk.open(NAME)
        waiting = 0
        for index, slot in self._stored(file):
            if slot.tick < read_tick:
                continue
            if slot.tick % self.slots != index or not 0 <= slot.last < log_end or slot.tick >= read_tick + self.slots:
                raise WheelUnfit(f"{NAME}: slot {index} points to {slot.last}, the timer log ends at {log_end}")
            self._pending[index] = 1
            self.checksum += slot.checksum
            waiting += slot.messages
        return waiting

    def _stored(self, file: DiskFile) -> Iterator[tuple[int, Slot]]:
        size = _BLOCK_SLOTS * SLOT.size
        empty = bytes(size)
        for start in range(0, self.slots, _BLOCK_SLOTS):
            block = file.pread(start * SLOT.size, size)
            if block == empty[: len(block)]:
                continue
            for number, (tick, first, last, messages, _) in enumerate(SLOT.iter_unpack(block)):
                if tick:
                    yield start + number, Slot(tick, first, last, messages)

    def create(self) -> None:
        """Create a wheel with nothing in it. Its name is durable when this returns."""
        if self._file is not None:
            self._file.close()
        self._file = self._new_file()
        self._pending = bytearray(self.slots)
        self._changed.clear()
        self.checksum = 0

    def _new_file(self) -> DiskFile:
        file = self._disk.open(NAME, create=True)
        file.truncate(0)
        file.truncate(self.slots * SLOT.size)
        file.sync()
        self._disk.sync_folder("")
        return file

    # -- slots --------------------------------------------------------------------------------------------------------

    def get(self, tick: int) -> Slot | None:
        """Return the slot of a tick; None if nothing waits for it."""
        index = tick % self.slots
        slot = self._changed.get(index)
        if slot is None and self._pending[index] and self._file is not None:
            slot = Slot(*SLOT.unpack(self._file.pread(index * SLOT.size, SLOT.size))[:4])
        return slot if slot is not None and slot.tick == tick else None

    def put(self, slot: Slot, before: Slot | None) -> None:
        """Set a slot. `before` is what `get` returned for its tick."""
        index = slot.tick % self.slots
        self.checksum += slot.checksum - (0 if before is None else before.checksum)
        self._changed[index] = slot
        self._pending[index] = 1

    def replay(self, tick: int, position: int, is_delete: bool) -> None:
        """Add a unit of the log, unless the file has it already: positions grow along a chain."""
        slot = self.get(tick)
        if slot is not None and slot.last >= position:
            return
        first, messages = (position, 0) if slot is None else (slot.first, slot.messages)
        self.put(Slot(tick, first, position, messages + (-1 if is_delete else 1)), slot)

    def clear(self, tick: int) -> Slot | None:
        """Clear a delivered tick, and return its slot. The file keeps it, as Java's does: `read_ms` says it is done."""
        slot = self.get(tick)
        if slot is not None:
            self.checksum -= slot.checksum
        self._pending[tick % self.slots] = 0
        return slot

    def checksum_from(self, first: int, start: int) -> int:
        """Return the checksum of what is pending from `start` on; everything pending is from `first` on."""
        checksum = self.checksum
        while first < start and (tick := self.next_tick(first)) is not None and tick < start:
            slot = self.get(tick)
            checksum -= 0 if slot is None else slot.checksum
            first = tick + 1
        return checksum

    def next_tick(self, after: int) -> int | None:
        """Return the first tick from this one on that something waits for."""
        start = after % self.slots
        index = self._pending.find(1, start)
        if index < 0:
            index = self._pending.find(1, 0, start)
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

    def write_out(self) -> None:
        """Write changes into the file. Only when the units that the slots point to are on the medium."""
        if not self._changed:
            return
        if self._file is None:  # until its first change a store without timers has no such file
            self._file = self._new_file()
        for index, slot in sorted(self._changed.items()):
            self._file.pwrite(index * SLOT.size, SLOT.pack(*slot, 0))
        self._changed.clear()

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
