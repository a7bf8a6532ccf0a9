"""The one way into the log, in plain Python: `append` writes what the store has encoded.

The store constructs it through `kernel/state.py`, makes room, rolls files and notifies who waits. `native/appender.pxi`
has the same class, whose `append` and feeds share one `put`; it writes without a call where files have room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .index_state import IndexState
from .keys import KEY_BYTES
from .state import Bytes, LogTail, QueueTail, WatermarkState


class AppendCalls(NamedTuple):
    """What an appender asks of the store."""

    make_room: Callable[[Sequence[tuple[QueueTail, int]], int], None]  # for so many entries of each queue, and keys
    break_off: Callable[[Exception], Exception]  # a write failed half-way: writing ends; what to raise
    publish: Callable[[Sequence[QueueTail], int], None]  # these queues have new entries, the log reaches to here
    roll: Callable[[], bool]  # the log goes on in the next file; False: that one is not there yet
    arrival_failed: Callable[[str], None]  # a listener raised, for this topic


class Appender:
    """The one way into the log: records, their queue entries and their keys, all of it or nothing.

    An error before the first byte leaves everything as it was. One behind it ends writing: log and queues do not agree.
    """

    def __init__(
        self,
        log: LogTail,
        index: IndexState | None,
        appended: WatermarkState,
        readable: WatermarkState,
        listeners: Mapping[str, tuple[Callable[[QueueTail], None], ...]],
        on_append: Sequence[Callable[[], None]],
        is_readable_at_once: bool,
        calls: AppendCalls,
    ) -> None:
        """`listeners`: by topic, who waits for messages. `on_append` is called behind each append.

        These two, the watermarks and `is_readable_at_once` are for the native appender, which has the same signature
        and moves and calls them by itself while nobody waits for a watermark; here `publish` does that each time.
        """
        self.log = log
        self.index = index
        self._calls = calls
        self.stopped: str | None = None  # why nothing is appended any more
        self.is_short = False  # there was no room on disk last time: ask for it before each append

    def append(
        self,
        records: Bytes,
        last_position: int,
        store_time: int,
        queues: Sequence[tuple[QueueTail, bytes, int]],
        keys: bytes,
    ) -> None:
        """Append records made for the log's end, which fit into its file. The last of them starts at `last_position`.

        `queues`: for each its new entries, and how many offsets they stand for. `keys`: hashed, in order of position.
        Raises what `make_room` raises, then nothing was written, or what `break_off` returns.
        """
        log = self.log
        needs = [(tail, len(entries) // tail.entry_bytes) for tail, entries, _ in queues]
        self._calls.make_room(needs, len(keys) // KEY_BYTES)
        try:
            log.by_disk(log.end, records)
            log.end += len(records)
            log.last_time, log.last_position = store_time, last_position
            if log.on_write is not None:
                log.on_write()
            for tail, entries, offsets in queues:
                count = len(entries) // tail.entry_bytes
                tail.by_disk(tail.end * tail.entry_bytes, entries)
                tail.end += count
                tail.offsets_ahead += offsets - count
            if keys and self.index is not None:
                self.index.add(keys, store_time)
        except Exception as fault:
            raise self._calls.break_off(fault) from fault
        self._calls.publish([tail for tail, _ in needs], log.end)
