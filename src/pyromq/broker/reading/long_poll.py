"""Pulls that wait for a message: by queue, with their deadlines in a heap.

Pure: it decides which are to be answered, the caller does the I/O and owns the timer. One pull costs one small object;
an append touches only the pulls of its own queue, and time touches only those that are due.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from ...kernel.state import QueueTail

T = TypeVar("T")

_LEAST_S = 0.001


def wait_until(due: float, now: float) -> float:
    """Return how long a timer is set for. uvloop takes less than half a millisecond for none, and a timer that came so
    much too early would be set again and again: none is for less than a whole one."""
    return max(_LEAST_S, due - now) if due > now else 0.0


class Arrivals(Protocol):
    """The store: calls who listens to a topic with each queue of it that has something new."""

    def on_arrival(self, topic: str, listener: Callable[[QueueTail], None]) -> None: ...

    def off_arrival(self, topic: str, listener: Callable[[QueueTail], None]) -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class SuspendedPull(Generic[T]):
    """`owner` is the connection that it came over, `ticket` the caller's own."""

    topic: str
    queue_id: int
    offset: int  # resumed when the queue's readable end is greater than this
    deadline: float
    owner: object
    ticket: T
    size: int = 0  # bytes of the request that it keeps
    is_suspended: bool = False  # kept by `LongPoll`


class LongPoll(Generic[T]):
    """Event loop only. A pull is in `_by_queue` and `_by_owner` exactly while it is suspended.

    The heap may also have pulls that were answered meanwhile, and one that was suspended again twice.
    """

    def __init__(self) -> None:
        # Of these the first is taken time and again, which a plain dictionary looks for behind all that went before.
        self._by_queue: dict[tuple[str, int], dict[SuspendedPull[T], None]] = {}
        self._by_owner: dict[object, dict[SuspendedPull[T], None]] = {}
        self._by_topic: dict[str, int] = {}  # how many
        self._deadlines: list[tuple[float, int, SuspendedPull[T]]] = []
        self._count = 0
        self._pushed = 0
        self.bytes = 0  # of all that are suspended

    def __len__(self) -> int:
        return self._count

    def suspend(self, pull: SuspendedPull[T]) -> None:
        """Keep the pull, also again after a round that found nothing: its deadline stays what it was."""
        pull.is_suspended = True
        key = pull.topic, pull.queue_id
        pulls = self._by_queue.get(key)
        if pulls is None:
            pulls = self._by_queue[key] = OrderedDict()
        pulls[pull] = None
        self._by_owner.setdefault(pull.owner, {})[pull] = None
        self._by_topic[pull.topic] = self._by_topic.get(pull.topic, 0) + 1
        self._count += 1
        self.bytes += pull.size
        self._pushed += 1
        heappush(self._deadlines, (pull.deadline, self._pushed, pull))

    def waits_on(self, topic: str) -> bool:
        return topic in self._by_topic

    def take_arrived(self, topic: str, queue_id: int, readable: int) -> list[SuspendedPull[T]]:
        """Remove and return what a message in this queue may answer: `readable` is the end that may be read now."""
        pulls = self._by_queue.get((topic, queue_id), ())
        return self._take([pull for pull in pulls if pull.offset < readable])

    def take_first(self, topic: str, queue_id: int) -> SuspendedPull[T] | None:
        """Remove and return the one that has waited the longest; None: nobody waits there."""
        pull = next(iter(self._by_queue.get((topic, queue_id), ())), None)
        if pull is not None:
            self._forget(pull)
        return pull

    def count(self, topic: str, queue_id: int) -> int:
        return len(self._by_queue.get((topic, queue_id), ()))

    def take_due(self, now: float) -> list[SuspendedPull[T]]:
        """Remove and return the pulls whose deadline has passed."""
        due = []
        while self._deadlines and self._deadlines[0][0] <= now:
            pull = heappop(self._deadlines)[2]
            if self._forget(pull):
                due.append(pull)
        return due

    def take_topic(self, topic: str) -> list[SuspendedPull[T]]:
        """Remove and return all that wait on a topic: it was deleted, or its permission has changed."""
        return self._take([pull for key, pulls in self._by_queue.items() if key[0] == topic for pull in pulls])

    def take_all(self) -> list[SuspendedPull[T]]:
        return self._take(list(self.suspended()))

    def drop(self, owner: object) -> None:
        self._take(list(self._by_owner.get(owner, ())))

    def forget(self, owner: object, is_meant: Callable[[T], bool]) -> bool:
        """Drop those of a connection that are meant. False: there is none."""
        return bool(self._take([pull for pull in self._by_owner.get(owner, ()) if is_meant(pull.ticket)]))

    def suspended(self) -> Iterator[SuspendedPull[T]]:
        for pulls in list(self._by_queue.values()):
            yield from list(pulls)

    def next_deadline(self) -> float | None:
        """Return when `take_due` has something to do; None while nothing is suspended."""
        while self._deadlines and not self._deadlines[0][2].is_suspended:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _take(self, pulls: list[SuspendedPull[T]]) -> list[SuspendedPull[T]]:
        for pull in pulls:
            self._forget(pull)
        return pulls

    def _forget(self, pull: SuspendedPull[T]) -> bool:
        if not pull.is_suspended:
            return False
        pull.is_suspended = False
        _remove(self._by_queue, (pull.topic, pull.queue_id), pull)
        _remove(self._by_owner, pull.owner, pull)
        self._by_topic[pull.topic] -= 1
        if not self._by_topic[pull.topic]:
            del self._by_topic[pull.topic]
        self._count -= 1
        self.bytes -= pull.size
        self._compact()
        return True

    def _compact(self) -> None:
        """Drop answered pulls from the heap, where they stay until their deadline: a busy queue would pile them up."""
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self._count:
            self._deadlines = [entry for entry in self._deadlines if entry[2].is_suspended]
            heapify(self._deadlines)


K = TypeVar("K", bound=Hashable)


def _remove(table: dict[K, dict[SuspendedPull[T], None]], key: K, pull: SuspendedPull[T]) -> None:
    pulls = table[key]
    del pulls[pull]
    if not pulls:
        del table[key]
