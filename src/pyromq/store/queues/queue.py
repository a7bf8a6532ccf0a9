"""What the store's other parts know of a queue, whichever of the two layouts it has on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

import msgspec

from ...kernel.records import Picked, Placed
from ...kernel.state import QueueTail
from ...model.boundary import Boundary
from ..files.file_sequence import IrregularFile
from ..layout import QueueEntry

StoreTimeAt: TypeAlias = Callable[[int], int | None]  # position of a record -> its store time


class SavedQueueState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where a queue stands, so that it can be used without a look at its files; and their stamps when that was so."""

    min_offset: int
    end: int  # the number of the entry behind the last
    first_file: int
    last_file: int  # bases; without a hole between them
    is_batch: bool = False
    stamp: int = 0  # of the last file
    folder_stamp: int = 0  # asked for only where there is more than one file


class QueueNumbers:
    """Where a queue begins and ends, read off its tail."""

    __slots__ = ("tail",)

    def __init__(self, tail: QueueTail) -> None:
        self.tail = tail

    @property
    def topic(self) -> str:
        return self.tail.topic

    @property
    def queue_id(self) -> int:
        return self.tail.queue_id

    @property
    def next_offset(self) -> int:
        return self.tail.next_offset

    @property
    def min_offset(self) -> int:
        return self.tail.min_offset

    @property
    def readable_end(self) -> int:
        return self.tail.readable_end


class StoredQueue(Protocol):
    """One queue of one topic. Offsets count messages. One writer.

    Invariants: min_offset <= readable_end <= next_offset; entries point into the log, in ascending order of position.
    """

    tail: QueueTail

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def min_offset(self) -> int: ...

    @property
    def readable_end(self) -> int:
        """Return the end of what readers see: all offsets below this."""
        ...

    @property
    def next_offset(self) -> int:
        """Return the offset that the writer gives to the next message."""
        ...

    def load(self) -> list[IrregularFile]: ...

    def saved_state(self) -> SavedQueueState | None:
        """Return where it stands, without stamps; None: it has no files, or not all of them."""
        ...

    def restore(self, state: SavedQueueState, next_offset: int) -> None:
        """Go on from where it stood, instead of `load`: no file is looked at."""
        ...

    def reserve(self, records: int) -> None:
        """Make room for the entries of so many records. Raises DiskFull before anything is written."""
        ...

    def pack(self, places: Sequence[Placed]) -> bytes:
        """Return the entries for records as its files have them."""
        ...

    def accept(self, places: Sequence[Placed]) -> None:
        """Write entries for records, in order of offset. What is there is compared and mended; a gap is filled."""
        ...

    def pick(
        self, offset: int, tag_codes: Collection[int] | None, max_count: int, max_bytes: int, low: int, scan: int
    ) -> Picked:
        """Return which records a pull from `offset` gets, looking at no more than `scan` entries."""
        ...

    def skip_missing(self, offset: int) -> int:
        """Return the next offset behind one whose entry is lost. It reads a few thousand entries at most."""
        ...

    def is_resident(self, offset: int, scan: int) -> bool:
        """Return whether a pick from there would not wait for the medium."""
        ...

    def warm(self, offset: int, scan: int) -> None:
        """Bring the entries for a pick into the page cache. For a helper thread."""
        ...

    def entry_at(self, offset: int) -> QueueEntry | None: ...

    def last_entry(self) -> QueueEntry | None:
        """Return the newest entry that stands for a record."""
        ...

    def confirms(self, placed: Placed) -> bool:
        """Return whether there is an entry for exactly this record."""
        ...

    def positions_from(self, position: int) -> list[int]:
        """Return positions of the records at or behind a place in the log, as far as entries know them."""
        ...

    def offset_by_time(self, time_ms: int, boundary: Boundary, store_time_at: StoreTimeAt) -> int: ...

    def discard_from(self, position: int, is_record: Callable[[QueueEntry], bool]) -> None:
        """Forget entries for records at or behind `position`: they are about to be written again."""
        ...

    def raise_minimum(self, log_start: int) -> bool:
        """Raise the minimum: the log begins here now. Files wholly below it go; return True if one went."""
        ...

    def reserve_up_to(self, offset: int) -> None:
        """Reserve all offsets below this one.

        Slots in that range without an entry are reported as damaged, never reused.
        """
        ...

    def clear(self) -> None: ...

    def file_names(self) -> list[str]: ...
