"""Records to everything that is derived from them: `dispatch` for recovery and rebuild, `by_queue` for appends too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...kernel.records import Placed
from ..index.key_index import Index
from ..queues.queue import StoredQueue
from ..queues.queue_table import QueueTable


class RecordDispatcher:
    """One writer. Calling it again with the same records changes nothing: queues compare, the index knows its end."""

    def __init__(self, queues: QueueTable, index: Index | None, deleted: Mapping[str, int] | None = None) -> None:
        """`deleted`: topic to the position below which its records belong to a life that was deleted."""
        self._queues = queues
        self._index = index
        self._deleted = deleted or {}

    def dispatch(self, places: Sequence[Placed]) -> None:
        """Write queue entries, then index entries. Records come in order of position."""
        for queue, group in self.by_queue(places):
            queue.accept(group)
        if self._index is not None:
            self._index.accept(places)

    def by_queue(self, places: Sequence[Placed]) -> list[tuple[StoredQueue, list[Placed]]]:
        """Return records that have a queue entry, grouped by queue; queues that do not exist yet are made."""
        groups: dict[tuple[str, int], tuple[StoredQueue, list[Placed]]] = {}
        for placed in places:
            if not placed.in_queue or (self._deleted and placed.position < self._deleted.get(placed.topic, 0)):
                continue
            key = (placed.topic, placed.queue_id)
            group = groups.get(key)
            if group is None:
                queue = self._queues.get_or_make(*key, holds_batch=placed.is_inner_batch)
                group = groups[key] = (queue, [])
            group[1].append(placed)
        return list(groups.values())
