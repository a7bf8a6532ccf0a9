"""The timer log: one unit for each message that waits for a time, chained by the slot that it waits in. Java's format.

A unit is never changed. The files are `timerlog/`; which slot a chain belongs to is `timer_wheel.py`. Blocking, one
caller at a time (`timer_store.py`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...model.wire_text import whole_number
from ..files.disk import Disk, DiskError, make_folder_durably
from ..files.file_sequence import FileSequence
from ..files.open_files import OpenFiles

FOLDER = "timerlog"

# | size 4 (52) | previous unit of the slot 8 (-1: none) | flags 4 | written at 8, ms | slot time - written at 4, ms |
# | record position 8 | record size 4 | hash of its topic 4 | 0 8 |
UNIT = struct.Struct(">iqiqiqiiq")
UNIT_BYTES = UNIT.size
# The end of a file that has no room for another unit: | bytes left 4 | 0 8 | magic 4 |
BLANK = struct.Struct(">iqi")
BLANK_MAGIC = 0xCBD43194 - (1 << 32)

ALWAYS, ROLL, DELETE = 1, 2, 4  # flags: ROLL is put to the timer again, DELETE recalls another
NONE = -1
_LONGEST_MS = (1 << 31) - 1  # that the field of a delay holds: 24.8 days
_STEP = 1 << 20  # files get room on the medium in steps of this
_BLOCK = 1 << 12
_OPEN_TIMER_FILES = 8


class Unit(NamedTuple):
    """One message that waits."""

    position: int
    previous: int
    flags: int
    written_ms: int
    delay_ms: int
    record_position: int
    record_size: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        return self.written_ms + self.delay_ms

    @property
    def is_roll(self) -> bool:
        return bool(self.flags & ROLL)

    @property
    def is_delete(self) -> bool:
        """Return whether it recalls a message of its slot. While it rolls it is a message like others."""
        return bool(self.flags & DELETE) and not self.is_roll


class ChainBroken(DiskError):
    """A slot points to something that is no unit of it: wheel and log do not belong together."""


class TimerLog:
    """Invariant: everything below `end` is whole units and file ends."""

    def __init__(self, disk: Disk, file_bytes: int) -> None:
        self._disk = disk
        self._files = OpenFiles(disk, _OPEN_TIMER_FILES)
        self._sequence = FileSequence(disk, self._files, FOLDER, _size_on_disk(disk) or file_bytes)
        self._sequence.load()
        self._buffer = bytearray()
        self._allocated_until = 0  # position up to which the last file has room on the medium
        self._new_files = False
        self.end = self._sequence.start

    @property
    def file_bytes(self) -> int:
        return self._sequence.file_bytes

    @property
    def start(self) -> int:
        return self._sequence.start

    @property
    def limit(self) -> int:
        return self._sequence.limit

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(
        self, previous: int, flags: int, written_ms: int, delay_ms: int, record: tuple[int, int], topic_hash: int
    ) -> int:
        """Append a unit and return its position. It is in the file after `write`.

        Where the clock was set, its slot may be further from now than the field holds: then the unit keeps its slot,
        and its time of writing is moved as little as possible."""
        slot_ms = written_ms + delay_ms
        delay_ms = max(-_LONGEST_MS, min(delay_ms, _LONGEST_MS))
        written_ms = slot_ms - delay_ms
        left = self.file_bytes - self.end % self.file_bytes
        if left < UNIT_BYTES + BLANK.size:
            self._buffer += BLANK.pack(left, 0, BLANK_MAGIC) + bytes(left - BLANK.size)
            self.end += left
        position = self.end
        self._buffer += UNIT.pack(UNIT_BYTES, previous, flags, written_ms, delay_ms, *record, topic_hash, 0)
        self.end += UNIT_BYTES
        return position

    def write(self) -> None:
        """Write what was appended into the files."""
        at = self.end - len(self._buffer)
        view = memoryview(bytes(self._buffer))
        while view:
            self._allocate(at)
            part = view[: self.file_bytes - at % self.file_bytes]
            self._sequence.write(at, part)
            at += len(part)
            view = view[len(part) :]
        self._buffer.clear()

    def _allocate(self, at: int) -> None:
        base = self._sequence.base_of(at)
        if not self._sequence.has(at):
            make_folder_durably(self._disk, FOLDER)
            file, _ = self._sequence.file_at(base, create=True)
            file.truncate(self.file_bytes)
            self._sequence.bases.append(base)
            self._new_files = True
            self._allocated_until = base
        end = min(self.end, base + self.file_bytes)
        if self._allocated_until < end:
            file, _ = self._sequence.file_at(base)
            start = max(self._allocated_until, base) - base
            length = min(max(_STEP, end - base - start), self.file_bytes - start)
            file.allocate(start, length)
            self._allocated_until = base + start + length

    def sync(self, start: int) -> None:
        """Return once everything from `start` on is on the medium."""
        first = self._sequence.base_of(start)
        for base in [base for base in self._sequence.bases if base >= first]:
            self._files.get(self._sequence.name(base)).sync()
        if self._new_files:
            self._disk.sync_folder(FOLDER)
            self._new_files = False

    def cut(self, end: int) -> None:
        """Remove what lies behind `end`: nobody was promised it."""
        self._sequence.cut(end, allocate=False)
        self.end = end
        self._allocated_until = end

    def drop_all(self) -> None:
        self._sequence.drop_all()
        self.end = self._allocated_until = 0

    def drop_before(self, record_position: int) -> int:
        """Remove the first files whose units all point below a place of the commit log. Return how many went."""
        dropped = 0
        last_inside = (self.file_bytes - BLANK.size) // UNIT_BYTES * UNIT_BYTES - UNIT_BYTES
        while len(self._sequence.bases) > 1 and self.start + self.file_bytes <= self.end:
            last = self._unit(self._sequence.read(self.start + last_inside, UNIT_BYTES), self.start + last_inside)
            if last is None or last.record_position >= record_position:
                break
            self._sequence.drop_first()
            dropped += 1
        return dropped

    def close(self) -> None:
        self._files.close()

    # -- reading ------------------------------------------------------------------------------------------------------

    def newer(self, last: int, above: int, slot_ms: int) -> list[Unit]:
        """Return the units of a slot from its last one back to those at or below a place, the oldest first."""
        found: list[Unit] = []
        reader = _Blocks(self._sequence)
        position = last
        while position > above and position >= self.start:
            unit = self._unit(reader.unit(position), position)
            if unit is None or unit.slot_ms != slot_ms:
                raise ChainBroken(f"{FOLDER} at {position}: no unit of the slot {slot_ms}")
            found.append(unit)
            position = unit.previous
        found.reverse()
        return found

    def chain(self, last: int, first: int, slot_ms: int) -> tuple[array[int], array[int]]:
        """Return the units of a slot from its last on, the oldest first: positions of messages, and of recalls.

        A chain ends where its files are gone: everything that old was carried forward. Raises ChainBroken if the units
        are not those of the slot."""
        messages, deletes = array("q"), array("q")
        reader = _Blocks(self._sequence)
        position, bound = last, self.end
        while position != NONE and position >= self.start:
            unit = self._unit(reader.unit(position), position)
            if unit is None or position >= bound or unit.slot_ms != slot_ms:
                raise ChainBroken(f"{FOLDER} at {position}: no unit of the slot {slot_ms}")
            (deletes if unit.is_delete else messages).append(position)
            position, bound = unit.previous, position
        if self.start <= first < bound:
            raise ChainBroken(f"{FOLDER}: the chain of the slot {slot_ms} ends at {bound}, and began at {first}")
        messages.reverse()
        deletes.reverse()
        return messages, deletes

    def units(self, positions: Iterable[int]) -> list[Unit]:
        reader = _Blocks(self._sequence)
        found = [self._unit(reader.unit(position), position) for position in positions]
        return [unit for unit in found if unit is not None]

    def scan(self, start: int, end: int) -> Iterator[Unit]:
        """Yield units from a position on, up to `end` or to the first thing that is none."""
        position = max(start, self.start)
        reader = _Blocks(self._sequence)
        while position + UNIT_BYTES <= end and self._sequence.has(position):
            left = self.file_bytes - position % self.file_bytes
            if left < UNIT_BYTES + BLANK.size:
                position += left
                continue
            unit = self._unit(reader.unit(position), position)
            if unit is None:
                return
            yield unit
            position += UNIT_BYTES

    @staticmethod
    def _unit(raw: bytes, position: int) -> Unit | None:
        if len(raw) < UNIT_BYTES:
            return None
        size, previous, flags, written, delay, record, record_size, topic_hash, _ = UNIT.unpack(raw)
        if size != UNIT_BYTES or flags & ~0xF or not flags & ALWAYS or previous >= position or previous < NONE:
            return None
        return Unit(position, previous, flags, written, delay, record, record_size, topic_hash)


class _Blocks:
    """Reads units in larger pieces: a chain mostly runs through neighbours."""

    def __init__(self, sequence: FileSequence) -> None:
        self._sequence = sequence
        self._at = 0
        self._block = b""

    def unit(self, position: int) -> bytes:
        inside = position - self._at
        if not 0 <= inside <= len(self._block) - UNIT_BYTES:
            # A chain runs backwards, so most of the piece lies before the unit.
            self._at = max(self._sequence.base_of(position), position + UNIT_BYTES - _BLOCK)
            self._block = self._sequence.read(self._at, position + UNIT_BYTES - self._at)
            inside = position - self._at
        return self._block[inside : inside + UNIT_BYTES]


def _size_on_disk(disk: Disk) -> int | None:
    """Return the length that the files have: a store from elsewhere may have been written with another setting."""
    sizes: Sequence[int] = [
        disk.size(f"{FOLDER}/{name}") for name in disk.list(FOLDER) if whole_number(name) is not None
    ]
    return max(sizes) if sizes and max(sizes) >= UNIT_BYTES + BLANK.size else None
