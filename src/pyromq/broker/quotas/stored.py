"""How many bytes of a topic are stored, about: counted by samples of its queues' entries, once a second at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...store.queues.queue import StoredQueue

_SAMPLES = 512  # entries of one topic that are looked at
_FRESH_S = 1.0
_MOST_TOPICS = 10_000


@dataclass(slots=True, eq=False, repr=False)
class StoredBytes:
    """Event loop only."""

    queues_of: Callable[[str], list[StoredQueue]]
    monotonic: Callable[[], float]
    _known: dict[str, tuple[float, int]] = field(default_factory=dict)

    def __call__(self, topic: str) -> int:
        now = self.monotonic()
        counted_at, size = self._known.get(topic, (float("-inf"), 0))
        if now - counted_at < _FRESH_S:
            return size
        queues = self.queues_of(topic)
        size = sum(_bytes_of(queue, max(1, _SAMPLES // len(queues))) for queue in queues)
        if len(self._known) >= _MOST_TOPICS:
            self._known.clear()
        self._known[topic] = now, size
        return size


def _bytes_of(queue: StoredQueue, samples: int) -> int:
    """Return the messages of a queue times the mean size of some that stand evenly in it."""
    first, end = queue.min_offset, queue.next_offset
    count = end - first
    if count <= 0:
        return 0
    step = max(1, count // samples)
    entries = [queue.entry_at(offset) for offset in range(first, end, step)]
    sizes = [entry.size for entry in entries if entry is not None]
    return count * sum(sizes) // len(sizes) if sizes else 0
