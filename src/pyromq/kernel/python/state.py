"""The hot state in plain Python: where log and queues end, what is flushed, whether appends are open, and what verdicts
on pulls hold.

The store and the broker construct these through `kernel/state.py`; `native/state.pxi` and `native/pull_state.pxi` have
the same classes with C fields. They hold numbers and what was handed to them as callables, no object of a higher room.
Event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
WriteByDisk: TypeAlias = Callable[[int, Bytes], None]  # position, bytes: through the store's disk, whatever that is

BLANK_BYTES = 8  # of the record that ends a file of the log


class OpenFile:
    """A file that the system has open. Whoever closes it sets `descriptor` to -1 before anything else runs."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor


class FileTail:
    """The file at the end of a run of files, where a kernel may write by itself."""

    __slots__ = ("base", "by_disk", "file", "until")

    def __init__(self, by_disk: WriteByDisk) -> None:
        """`by_disk` writes where `file` does not serve: in another file, or on a disk without descriptors."""
        self.by_disk = by_disk
        self.file: OpenFile | None = None
        self.base = self.until = 0

    def use(self, file: OpenFile | None, base: int, until: int) -> None:
        """Remember the open file that holds positions from `base` to before `until`; None: it has no descriptor."""
        self.file, self.base, self.until = file, base, until

    def holds(self, position: int) -> bool:
        """Return whether the file that is remembered holds this position, and is still open."""
        return self.file is not None and self.base <= position < self.until and self.file.descriptor >= 0


class LogTail(FileTail):
    """The commit log: from where to where it reaches, and the newest record. The store times never go down."""

    __slots__ = ("end", "last_position", "last_time", "limit", "on_write", "start")

    def __init__(self, by_disk: WriteByDisk) -> None:
        super().__init__(by_disk)
        self.start = 0  # the oldest file begins here
        self.end = 0  # the next record goes here
        self.limit = 0  # the newest file ends here; 0: there is none
        self.last_time = 0  # store time of the newest record
        self.last_position = 0  # and where it starts
        self.on_write: Callable[[], None] | None = None  # called at once, before queues and index have their entries

    @property
    def room(self) -> int:
        """Return how many bytes of records still fit into the newest file. Negative: not even its end mark would."""
        return self.limit - self.end - BLANK_BYTES


class QueueTail(FileTail):
    """One queue. Invariants: min_offset <= readable_end <= next_offset; all entries before `end` are written."""

    __slots__ = (
        "changed_files",
        "end",
        "entry_bytes",
        "file_name",
        "is_removed",
        "min_offset",
        "offsets_ahead",
        "queue_id",
        "readable_end",
        "room_until",
        "topic",
    )

    def __init__(
        self, topic: str, queue_id: int, entry_bytes: int, by_disk: WriteByDisk, changed_files: set[str]
    ) -> None:
        """`changed_files` gets the name of each file that is written, for the next flush."""
        super().__init__(by_disk)
        self.topic = topic
        self.queue_id = queue_id
        self.entry_bytes = entry_bytes
        self.changed_files = changed_files
        self.file_name = ""  # of `file`
        self.end = 0  # number of the entry behind the last
        self.offsets_ahead = 0  # by which offsets are ahead of numbers: an entry of a batch queue stands for several
        self.room_until = 0  # byte position up to which there is room on disk
        self.min_offset = 0
        self.readable_end = 0  # readers see offsets below this
        self.is_removed = False  # its topic was deleted; a new queue of that name has a tail of its own

    @property
    def next_offset(self) -> int:
        """Return the offset of the next message."""
        return self.end + self.offsets_ahead


class WatermarkState:
    """A position that only grows."""

    __slots__ = ("is_watched", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self.is_watched = False  # somebody waits or listens: the store's `Watermark.advance` has to move it


class TimeSource:
    """Both clocks, as a kernel reads them."""

    __slots__ = ("monotonic", "now_ms")

    def __init__(self, monotonic: Callable[[], float], now_ms: Callable[[], int], is_system: bool) -> None:
        """`is_system`: these are the machine's own, which a native kernel reads without a call."""
        self.monotonic = monotonic
        self.now_ms = now_ms


class Reason:
    """Why a gate is closed: bits of a number."""

    DISK = 1  # there is no room
    LAG = 2  # the event loop was late when it was measured last
    GATHERED = 4  # Python has messages that it has not put yet, and they came first
    SYNC = 8  # answers wait for the medium, and the broker counts them
    COPIES = 16  # too few slaves are in sync


class Gate:
    """Whether appends may be made without asking the broker. Whoever knows of a reason against it closes the gate.

    Two numbers are for the kernel to compare, since nobody is called when they are passed: a moment, and the log's end.
    """

    __slots__ = ("closed", "due", "log_limit")

    def __init__(self) -> None:
        self.closed = 0  # reasons; 0: open
        self.due = 0.0  # by the monotonic clock: behind it the event loop is late
        self.log_limit = -1  # the log's end: beyond it too much is not flushed

    def set(self, reason: int, applies: bool) -> None:
        """Close the gate for this reason, or take the reason back; others may be left."""
        self.closed = self.closed | reason if applies else self.closed & ~reason


class ChangeFlag:
    """Something that verdicts depend on, as it was when they were given. Whoever changes it sets the flag, for good."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class PulledOffset:
    """The offset that a group asked a queue for last."""

    __slots__ = ("_changed", "_pair", "value")

    def __init__(self, value: int, pair: str, changed: set[str]) -> None:
        """`changed` gets `pair` (topic and group) whenever the offset changes: it is to be saved."""
        self.value = value
        self._pair = pair
        self._changed = changed

    def note(self, offset: int) -> None:
        if self.value != offset:
            self.value = offset
            self._changed.add(self._pair)


class ResidentFiles:
    """Files of one length that are one run of bytes, read as far as they are in memory."""

    __slots__ = ("_file_bytes", "_read_by_disk")

    def __init__(
        self,
        file_bytes: int,
        find: Callable[[int], OpenFile | None],
        read_by_disk: Callable[[int, int], bytes | None],
    ) -> None:
        """`find` returns the open file of a position, for a kernel that reads by descriptors, if there are any."""
        self._file_bytes = file_bytes
        self._read_by_disk = read_by_disk

    def read(self, position: int, length: int) -> bytes | None:
        """Return the bytes, which lie in one file; None: they are not there, or not in memory."""
        if position < 0 or length > self._file_bytes - position % self._file_bytes:
            return None
        raw = self._read_by_disk(position, length)
        return raw if raw is not None and len(raw) == length else None


class HalfStates:
    """What became of half messages, by offset in their queue from `origin` on: a byte each, 0 while it is undecided.

    Whoever decides writes here (`broker/transactions/states.py`); a kernel reads it. `checks` is how often producers
    were asked about some of them, by offset: how these end depends on that."""

    __slots__ = ("checks", "origin", "states")

    def __init__(self, origin: int, checks: dict[int, int]) -> None:
        self.origin = origin
        self.states = bytearray()
        self.checks = checks
