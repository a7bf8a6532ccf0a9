"""A master's records to the end of our log, in plain Python: what a slave's stream brings, but for what is odd.

The store constructs it through `kernel/state.py`; `native/follow_feed.pxi` has the same class. The contract of `take`:

- *Bytes* belong at the log's end and within its file. They may end inside a record, which is left.
- *Plain records* are taken, as many as stand at the beginning: whole and undamaged by `check_at`, each with the next
  offset of a queue that exists, neither delayed by a level nor an inner batch. A kernel may take fewer.
- *What is odd* ends the run, and nothing is said about it: the store looks at that record by itself, says what is wrong
  with it or appends it, and asks again behind it.
- *All of a run* is in log, queues and index when `take` returns, and who waits for it has been told.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from .appender import Appender
from .keys import index_keys
from .placed import Placed
from .pull import ENTRY
from .scan import is_sealed, plain_places
from .state import BLANK_BYTES, Bytes, QueueTail


class FollowFeed:
    """Bound to one store. Event loop only."""

    def __init__(self, appender: Appender, index_tags: bool, queue: Callable[[str, int], QueueTail | None]) -> None:
        """`queue` returns the store's queue of a topic and id; None: it has to be made first, or is a batch queue."""
        self._appender = appender
        self._index_tags = index_tags
        self._queue = queue
        self.messages = 0  # taken since the start

    def take(self, data: Bytes, sealed: bool | None) -> int:
        """Append the plain records at the beginning of `data`, and return how many bytes they have.

        `sealed`: only records with a CRC of their own, or (False) only those without one. Raises as an append does.
        """
        if self._appender.stopped is not None:
            return 0
        view, log = memoryview(data), self._appender.log
        start, last_time = log.end, log.last_time
        run: list[tuple[int, Placed, QueueTail | None]] = []
        expected: dict[QueueTail, int] = {}
        for placed in plain_places(view, start):
            if placed.end + BLANK_BYTES > log.limit or sealed not in (None, is_sealed(placed)):
                break
            tail = self._queue(placed.topic, placed.queue_id) if placed.in_queue else None
            if placed.in_queue:
                if tail is None or placed.queue_offset != expected.get(tail, tail.next_offset):
                    break
                expected[tail] = placed.queue_offset + 1
            last_time = max(last_time, placed.store_time)
            run.append((last_time, placed, tail))
        for store_time, together in groupby(run, lambda one: one[0]):
            self._append(view, start, store_time, [(placed, tail) for _, placed, tail in together])
        self.messages += len(run)
        return log.end - start

    def _append(
        self, view: memoryview, start: int, store_time: int, run: list[tuple[Placed, QueueTail | None]]
    ) -> None:
        """Append records of one store time."""
        entries: dict[QueueTail, list[bytes]] = {}
        for placed, tail in run:
            if tail is not None:
                entries.setdefault(tail, []).append(ENTRY.pack(placed.position, placed.size, placed.tag_code))
        places, index = [placed for placed, _ in run], self._appender.index
        self._appender.append(
            view[places[0].position - start : places[-1].end - start],
            places[-1].position,
            store_time,
            [(tail, b"".join(packed), len(packed)) for tail, packed in entries.items()],
            b"" if index is None else index_keys(places, index.covered, self._index_tags),
        )
