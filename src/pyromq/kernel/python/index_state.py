"""The index's hot state in plain Python: the file that is written, its slots, and entries that are not in it yet.

`store/index` constructs and uses it through `kernel/state.py`; `native/index_state.pxi` has the same classes with C
fields.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence

from .keys import KEY, KEY_BYTES, PAGE_SLOTS, big_endian

_ENTRY = struct.Struct(">iqii")


class SlotState:
    """The slots of an index file in memory, and the pages of it that a flush has still to copy.

    A byte of `changed` and of `due` stands for a page of PAGE_SLOTS slots: one that changed since the last image was
    taken, and one that goes to `saved`, as the file has it, before it changes.
    """

    __slots__ = ("changed", "due", "saved", "slots")

    def __init__(self, slots: array[int], changed: bytearray, due: bytearray, saved: dict[int, bytes]) -> None:
        self.slots = slots
        self.use(changed, due, saved)

    def use(self, changed: bytearray, due: bytearray, saved: dict[int, bytes]) -> None:
        """Go on with another image."""
        self.changed, self.due, self.saved = changed, due, saved

    def beyond(self, number: int) -> list[int]:
        """Return the slots that lead to an entry of this number or a later one."""
        self._check()
        return [slot for slot, newest in enumerate(self.slots) if newest >= number]

    @property
    def used(self) -> int:
        """Return how many slots lead to an entry."""
        self._check()
        return sum(1 for newest in self.slots if newest)

    def _check(self) -> None:
        if not self.slots or min(len(self.changed), len(self.due)) * PAGE_SLOTS < len(self.slots):
            raise ValueError("the pages do not cover the slots")

    def chain(self, keys: Sequence[tuple[int, int]], number: int, seconds: int) -> tuple[bytes, int]:
        """Return entries for hashes and positions, `number` being that of the first; and how many slots had none."""
        self._check()
        slots = self.slots
        entries: list[bytes] = []
        fresh = 0
        for entry, (key_hash, position) in enumerate(keys, number):
            slot = key_hash % len(slots)
            previous = slots[slot]
            entries.append(_ENTRY.pack(key_hash, position, seconds, previous))
            fresh += not previous
            page = slot // PAGE_SLOTS
            if self.due[page]:
                self.saved[page] = big_endian(slots, page * PAGE_SLOTS, (page + 1) * PAGE_SLOTS)
                self.due[page] = 0
            slots[slot] = entry
            self.changed[page] = 1
        return b"".join(entries), fresh


class IndexTail:
    """One index file: the numbers of its header, its slots, and its newest entries, which are not in the file yet."""

    __slots__ = (
        "begin_position",
        "begin_time",
        "end_position",
        "end_time",
        "entries_at",
        "entry_limit",
        "is_changed",
        "next_entry",
        "pending",
        "pending_bytes",
        "room_until",
        "slots",
        "used_slots",
        "write_pending",
    )

    def __init__(self, entry_limit: int, entries_at: int, write_pending: Callable[[], None]) -> None:
        """`entries_at`: the byte where the entries begin. `write_pending` writes what is pending to the file."""
        self.entry_limit = entry_limit
        self.entries_at = entries_at
        self.write_pending = write_pending
        self.slots: SlotState | None = None  # loaded before the first key is added
        self.pending: list[bytes] = []
        self.pending_bytes = 0
        self.room_until = 0  # byte position up to which there is room on disk
        self.is_changed = False  # slots or header, since the last commit was taken
        self.set_header(0, 0, 0, 0, 0, 1)

    def set_header(
        self, begin_time: int, end_time: int, begin_position: int, end_position: int, used_slots: int, next_entry: int
    ) -> None:
        """Set the header. `next_entry` starts at 1: entry 0 is not used."""
        self.begin_time, self.end_time = begin_time, end_time
        self.begin_position, self.end_position = begin_position, end_position
        self.used_slots, self.next_entry = used_slots, next_entry

    def add(self, keys: bytes, first: int, count: int, store_time: int) -> None:
        """Chain so many hashed keys from number `first` on into the slots; the file has room for their entries."""
        slots, number, seconds = self.slots, self.next_entry, 0
        if first < 0 or count < 1 or (first + count) * KEY_BYTES > len(keys) or count > self.entry_limit - number:
            raise ValueError(f"{count} keys from {first} on are more than there are, or than fit")
        if slots is None:
            raise ValueError("the slots are not loaded")
        if self.begin_time > 0:
            seconds = min(max((store_time - self.begin_time) // 1000, 0), 0x7FFFFFFF)
        chosen = list(KEY.iter_unpack(keys[first * KEY_BYTES : (first + count) * KEY_BYTES]))
        entries, fresh = slots.chain(chosen, number, seconds)
        if number == 1:
            self.begin_position, self.begin_time = chosen[0][1], store_time
        self.used_slots += fresh
        self.next_entry = number + count
        self.end_position, self.end_time = chosen[-1][1], store_time
        self.is_changed = True
        self.pending.append(entries)
        self.pending_bytes += len(entries)


class IndexState:
    """The index: the file that is written, and up to where records are in it."""

    __slots__ = ("covered", "most_pending", "roll", "tail")

    def __init__(self, roll: Callable[[], object], most_pending: int) -> None:
        """`roll` makes the next file the `tail`. With so many bytes of entries pending, they are written."""
        self.roll = roll
        self.most_pending = most_pending
        self.tail: IndexTail | None = None
        self.covered = -1  # start of the newest record that has a key

    def add(self, keys: bytes, store_time: int) -> None:
        """Add hashed keys of records behind all that are covered, for which the files have room."""
        first, count = 0, len(keys) // KEY_BYTES
        while first < count:
            if self.tail is None or self.tail.next_entry >= self.tail.entry_limit:
                self.roll()
            tail = self.tail
            if tail is None:
                raise ValueError("no index file is open")
            some = min(count - first, tail.entry_limit - tail.next_entry)
            tail.add(keys, first, some, store_time)
            self.covered = tail.end_position
            first += some
        if self.tail is not None and self.tail.pending_bytes >= self.most_pending:
            self.tail.write_pending()
