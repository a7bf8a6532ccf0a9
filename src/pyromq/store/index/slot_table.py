"""The slot table of an index file in memory, and images of it that a flush's thread writes while appends go on.

`index_file.py` owns one. An image costs the writer nothing when it is taken: a page is copied by the thread that writes
it, or by the writer just before it changes one that is not written yet. Copying the whole table (20 MB) at once stopped
the event loop for 30 ms each second.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterator

from ...kernel import state
from ...kernel.records import PAGE_SLOTS, big_endian

SLOT_BYTES = 4

_RUNS = re.compile(rb"\x01+(?:\x00{1,16}\x01+)*")  # changed pages, with short gaps between them
_STRETCH_PAGES = 64  # copied and written at once: the writer waits for as long as one copy takes, a tenth of a ms


class SlotImage:
    """The changed pages as they were at one moment. `stretches` may run in another thread than the writer's.

    Invariant: a page that differs from what it was is in `saved`, put there before its first change.
    """

    def __init__(self, slots: array[int], changed: bytearray) -> None:
        self._slots = slots
        self._runs = [run.span() for run in _RUNS.finditer(changed)]
        self.due = bytearray(len(changed))  # a byte for each page: the writer saves it before it changes it
        for first, until in self._runs:
            self.due[first:until] = b"\x01" * (until - first)
        self.saved: dict[int, bytes] = {}
        self.is_written = not self._runs

    def save(self, page: int) -> None:
        """Save a page before it changes."""
        self.saved[page] = big_endian(self._slots, page * PAGE_SLOTS, (page + 1) * PAGE_SLOTS)
        self.due[page] = 0

    def settle(self) -> None:
        """Save everything that is still due: another image is about to be taken before this one was written."""
        if self.is_written:
            return
        for first, until in self._runs:
            for page in range(first, until):
                if self.due[page]:
                    self.save(page)

    def stretches(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of the first slot, and the slots from there on as the file has them. Once only.

        Pages near each other go together: one write each would cost thousands of calls.
        """
        for first, until in self._runs:
            for at in range(first, until, _STRETCH_PAGES):
                yield at * PAGE_SLOTS, self._copy(at, min(at + _STRETCH_PAGES, until))
        self.is_written = True

    def _copy(self, first: int, until: int) -> bytes:
        """Return a copy of the slots in which pages that were saved meanwhile are as they were.

        Copies first and looks at the saved pages then: whoever changed a page before the copy had saved it before that.
        """
        copied = big_endian(self._slots, first * PAGE_SLOTS, until * PAGE_SLOTS)
        saved = [(page, self.saved.pop(page)) for page in range(first, until) if page in self.saved]
        self.due[first:until] = bytes(until - first)
        if not saved:
            return copied
        patched = bytearray(copied)
        for page, slots in saved:
            at = (page - first) * PAGE_SLOTS * SLOT_BYTES
            patched[at : at + len(slots)] = slots
        return bytes(patched)


class SlotTable:
    """One writer."""

    def __init__(self, slots: array[int]) -> None:
        self.slots = slots
        self._pages = -(-len(slots) // PAGE_SLOTS)
        self.image = SlotImage(slots, bytearray(self._pages))
        self.state = state.SlotState(slots, bytearray(self._pages), self.image.due, self.image.saved)

    @classmethod
    def loaded(cls, read: Callable[[int, int], bytes], count: int) -> SlotTable:
        """Return a table that was read.

        `read` returns slots from a number on, as many as asked for. In pieces, between which other threads run.
        """
        slots = array("I")
        for first in range(0, count, _STRETCH_PAGES * PAGE_SLOTS):
            piece = array("I", read(first, min(_STRETCH_PAGES * PAGE_SLOTS, count - first)))
            if sys.byteorder == "little":
                piece.byteswap()
            slots.extend(piece)
        return cls(slots)

    @classmethod
    def empty(cls, count: int, *, is_new: bool = False) -> SlotTable:
        """Return a table of zeroes, all to be written. `is_new`: of a new file, which holds them already."""
        table = cls(array("I", (0,)) * count)
        if not is_new:
            table.state.changed[:] = b"\x01" * table._pages
        return table

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, slot: int) -> int:
        return self.slots[slot]

    def __setitem__(self, slot: int, number: int) -> None:
        page = slot // PAGE_SLOTS
        if self.image.due[page]:
            self.image.save(page)
        self.slots[slot] = number
        self.state.changed[page] = 1

    @property
    def is_being_written(self) -> bool:
        return not self.image.is_written

    def take_image(self) -> SlotImage:
        """Return what changed since the last image, as it is now."""
        self.image.settle()
        self.image = SlotImage(self.slots, self.state.changed)
        self.state.use(bytearray(self._pages), self.image.due, self.image.saved)
        return self.image
