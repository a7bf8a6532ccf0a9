"""What the store's other parts know of a queue, whichever of the two layouts it has on disk.

`consume_queue.py` and `batch_queue.py` have the layouts; here is what they share: an `EntryLog` and its tail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, TypeAlias

from ... import logs
from ...kernel.records import Picked, Placed
from ...kernel.state import QueueTail
from ...model.boundary import Boundary
from ..files.file_sequence import IrregularFile
from ..layout import ENTRY_HEAD, FILLER_SIZE, QueueEntry
from .entry_log import EntryLog, SavedQueueState

log = logs.get("pyromq.store")

StoreTimeAt: TypeAlias = Callable[[int], int | None]  # position of a record -> its store time


class StoredQueue(ABC):
    """One queue of one topic. Offsets count messages. One writer. State stays small: there may be tens of thousands.

    Invariants: min_offset <= readable_end <= next_offset; entries point into the log, in ascending order of position.
    """

    __slots__ = ("entries", "tail")

    is_batch: ClassVar[bool]

    def __init__(self, entries: EntryLog) -> None:
        self.entries = entries
        self.tail: QueueTail = entries.tail

    @property
    def topic(self) -> str:
        return self.tail.topic

    @property
    def queue_id(self) -> int:
        return self.tail.queue_id

    @property
    def min_offset(self) -> int:
        return self.tail.min_offset

    @property
    def readable_end(self) -> int:
        """Return the end of what readers see: all offsets below this."""
        return self.tail.readable_end

    @property
    def next_offset(self) -> int:
        """Return the offset that the writer gives to the next message."""
        return self.tail.next_offset

    @abstractmethod
    def load(self) -> list[IrregularFile]: ...

    def saved_state(self) -> SavedQueueState | None:
        """Return where it stands, without stamps; None: it has no files, or not all of them."""
        return self.entries.saved_state(self.min_offset, is_batch=self.is_batch)

    def restore(self, state: SavedQueueState, next_offset: int) -> None:
        """Go on from where it stood, instead of `load`: no file is looked at."""
        self.entries.restore(state)
        self.tail.min_offset = state.min_offset
        self.tail.offsets_ahead = next_offset - self.tail.end
        self.tail.readable_end = next_offset

    # -- writing ------------------------------------------------------------------------------------------------------

    def reserve(self, records: int) -> None:
        """Make room for the entries of so many records. Raises DiskFull before anything is written."""
        self.entries.reserve(records)

    @abstractmethod
    def pack(self, places: Sequence[Placed]) -> bytes:
        """Return the entries for records as its files have them."""

    @abstractmethod
    def accept(self, places: Sequence[Placed]) -> None:
        """Write entries for records, in order of offset. What is there is compared and mended; a gap is filled."""

    def make_next(self, placed: Placed) -> bool:
        """Let this record be the next one: a queue that starts anew is emptied, a gap is filled.

        False: it has an entry already, or an older record has."""
        if placed.queue_offset < self.next_offset:
            if not self._starts_anew(placed):
                return False
            self._discard_at(placed.queue_offset)
        self.reserve_up_to(placed.queue_offset)
        self.tail.readable_end = max(self.min_offset, min(self.readable_end, self.next_offset))
        return True

    @abstractmethod
    def _discard_at(self, offset: int) -> None:
        """Forget what is at an offset and behind it: the queue starts anew."""

    @abstractmethod
    def reserve_up_to(self, offset: int) -> None:
        """Reserve all offsets below this one.

        Slots in that range without an entry are reported as damaged, never reused.
        """

    def _starts_anew(self, placed: Placed) -> bool:
        """Return whether this newer record with an older offset ends what was there: its topic was deleted before."""
        last = self.last_entry()
        if last is None or last.position >= placed.position:
            return False
        log.warning("queue starts anew", topic=self.topic, queue=self.queue_id, offset=placed.queue_offset)
        return True

    # -- reading ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def pick(
        self, offset: int, tag_codes: Collection[int] | None, max_count: int, max_bytes: int, low: int, scan: int
    ) -> Picked:
        """Return which records a pull from `offset` gets, looking at no more than `scan` entries."""

    @abstractmethod
    def skip_missing(self, offset: int) -> int:
        """Return the next offset behind one whose entry is lost. It reads a few thousand entries at most."""

    def _scanned(self, offset: int, scan: int) -> tuple[int, int]:
        """Return which entries a pick looks at: the first, and how many."""
        return offset, scan

    def is_resident(self, offset: int, scan: int) -> bool:
        """Return whether a pick from there would not wait for the medium."""
        return self.entries.is_resident(*self._scanned(offset, scan))

    def warm(self, offset: int, scan: int) -> None:
        """Bring the entries for a pick into the page cache. For a helper thread."""
        self.entries.warm(*self._scanned(offset, scan))

    @abstractmethod
    def entry_at(self, offset: int) -> QueueEntry | None: ...

    @abstractmethod
    def last_entry(self) -> QueueEntry | None:
        """Return the newest entry that stands for a record."""

    @abstractmethod
    def offset_by_time(self, time_ms: int, boundary: Boundary, store_time_at: StoreTimeAt) -> int: ...

    # -- recovery and retention ---------------------------------------------------------------------------------------

    @abstractmethod
    def _first_at_or_behind(self, position: int) -> int:
        """Return the number of the first entry for a record at or behind a place in the log."""

    def count_from(self, position: int) -> int:
        """Count the records at or behind a place in the log, as far as entries know them."""
        first = self._first_at_or_behind(position)
        raw = self.entries.read(first, self.entries.end - first)
        heads = (ENTRY_HEAD.unpack_from(raw, at) for at in range(0, len(raw), self.entries.entry_bytes))
        return sum(size != FILLER_SIZE for _, size in heads)

    @abstractmethod
    def discard_from(self, position: int, is_record: Callable[[QueueEntry], bool]) -> None:
        """Forget entries for records at or behind `position`: they are about to be written again."""

    @abstractmethod
    def raise_minimum(self, log_start: int) -> bool:
        """Raise the minimum: the log begins here now. Files wholly below it go; return True if one went."""

    def clear(self) -> None:
        self.entries.clear()
        self.tail.min_offset = self.tail.offsets_ahead = self.tail.readable_end = 0
