"""Pops that found nothing and wait: woken one for each message, by arrivals in the topic or its retry topics, or ended.

Nobody costs a task. A pop of any queue and one of a single queue wait apart, as in Java. Arrivals of one turn are
served together; each woken pop looks through the queues again, and waits on if it finds nothing. `handler.py` owns the
tickets. Requests of other kinds that wait for messages (notifications) have a table of their own of this class.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeVar

from ...ambient import Clock, Timer
from ...kernel.state import QueueTail
from ...model.pop_names import retry_topic_v1, retry_topic_v2
from ...transport.peer import Peer
from ..metadata.offsets import SEPARATOR
from ..reading.long_poll import Arrivals, LongPoll, SuspendedPull, wait_until

ANY_QUEUE = -1
AT_ONCE = 64  # in a turn of the loop, if they take no longer than this:
TURN_S = 0.0002
MANY_BYTES = 256 << 20  # of requests that wait
EARLY_MS = 50  # before the end of its time a pop is looked at once more and answered


class WaitingTicket(Protocol):
    """What waits."""

    @property
    def size(self) -> int:
        """Return the bytes that it keeps."""
        ...


T = TypeVar("T", bound=WaitingTicket)


class Holding(Enum):
    """Whether a request may wait."""

    WAITS = 0
    NOT = 1  # it does not want to, or its time is over
    FULL = 2


@dataclass(slots=True)
class _Watched:
    """A topic that somebody waits on: for which pairs a message in it counts, and how far it was seen."""

    waits: dict[str, bool] = field(default_factory=dict)  # pair -> whether it is the topic that was asked for
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Wake:
    """Messages that came, or were left. Who waits for them looks once: what one has not found is not there."""

    pair: str
    queue_id: int
    messages: int  # that nobody has got yet
    looks: int  # of those who waited then and have not looked


class HeldPops(Generic[T]):
    """Event loop only. `retry` looks again: it answers and returns how many messages it took (one if it cannot say), or
    calls `put_back`. `end` answers, whatever is found; `dismiss` does without looking. `finish` is called after some of
    these, in the same turn. `dismissals` tells who looked for long whether all were dismissed meanwhile."""

    def __init__(
        self,
        clock: Clock,
        arrivals: Arrivals,
        retry: Callable[[SuspendedPull[T]], int],
        end: Callable[[T], None],
        dismiss: Callable[[T], None],
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock, self._arrivals = clock, arrivals
        self._retry, self._end, self._dismiss, self._finish = retry, end, dismiss, finish
        self.dismissals = 0
        self._held: LongPoll[T] = LongPoll()
        self._watched: dict[str, _Watched] = {}
        self._queues: dict[str, set[int]] = {}  # by pair: queue numbers that somebody waits under, or did
        self._arrived: dict[tuple[str, int], int] = {}  # messages that came in this turn
        self._woken: deque[_Wake] = deque()  # in later turns
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def count(self, topic: str, group: str, queue_id: int) -> int:
        """Return how many wait under exactly this queue number."""
        return self._held.count(_pair(topic, group), queue_id)

    # --- waiting --------------------------------------------------------------------------------------------------

    def add(
        self,
        place: tuple[str, str, int],
        wait_ms: int,
        peer: Peer,
        ticket: T,
        most: tuple[int, int],
        most_bytes: int = MANY_BYTES,
    ) -> Holding:
        """Hold a request by topic, group and queue for so long. `most`: how many may wait in all, and under this key;
        `most_bytes`: of all their requests.

        The number under a key may be one more than that, as in Java.
        """
        topic, group, queue_id = place
        if wait_ms <= EARLY_MS or self._is_closed:
            return Holding.NOT
        is_too_much = self._held.bytes + ticket.size > most_bytes
        if is_too_much or len(self._held) >= most[0] or self.count(*place) > most[1]:
            return Holding.FULL
        deadline = self._clock.monotonic() + (wait_ms - EARLY_MS) / 1000
        self.put_back(SuspendedPull(_pair(topic, group), queue_id, 0, deadline, peer, ticket, ticket.size))
        return Holding.WAITS

    def put_back(self, waiter: SuspendedPull[T]) -> None:
        """Let it wait on; its end stays what it was."""
        queues = self._queues.get(waiter.topic)
        if queues is None:  # else its topics are watched
            queues = self._queues[waiter.topic] = set()
            topic, _, group = waiter.topic.partition(SEPARATOR)
            for watched in (topic, retry_topic_v1(topic, group), retry_topic_v2(topic, group)):
                self._watch(watched, waiter.topic, is_own=watched == topic)
        queues.add(waiter.queue_id)
        self._held.suspend(waiter)
        self._set_timer()

    def _watch(self, watched: str, pair: str, is_own: bool) -> None:
        known = self._watched.get(watched)
        if known is None:
            known = self._watched[watched] = _Watched()
            self._arrivals.on_arrival(watched, self._note_arrival)
        known.waits[pair] = is_own

    def drop(self, peer: Peer) -> None:
        """Drop those of a connection that is gone."""
        self._held.drop(peer)

    def forget(self, peer: Peer, is_meant: Callable[[T], bool]) -> bool:
        """Drop one that a client gave up. False: it does not wait any more."""
        return self._held.forget(peer, is_meant)

    def end_all(self) -> None:
        """Answer all, so that clients turn to another broker at once; nothing is held from now on."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in self._held.take_all():
            self._end(waiter.ticket)
        self._finish()

    def dismiss_all(self) -> None:
        """Answer all that nothing has come, whatever has: who asks again is judged anew."""
        self.dismissals += 1
        for waiter in self._held.take_all():
            self._dismiss(waiter.ticket)
        self._finish()

    def end_pairs(self, is_meant: Callable[[str, str], bool]) -> None:
        """Answer those on a topic, or of a group, that is gone or may not read any more."""
        for waiter in [*self._held.suspended()]:
            topic, _, group = waiter.topic.partition(SEPARATOR)
            if is_meant(topic, group):
                for each in self._held.take_topic(waiter.topic):
                    self._end(each.ticket)
        self._finish()

    # --- what wakes them ------------------------------------------------------------------------------------------

    def wake(self, topic: str, group: str, queue_id: int, most: int = 1) -> None:
        """Let so many look again, in the next turn of the loop: there is more, or a queue is free again."""
        pair = _pair(topic, group)
        if self._held.count(pair, queue_id):
            self._wake_later(pair, queue_id, most)

    def wake_all_queues(self, topic: str, group: str) -> None:
        """Let one look again under each queue number: the group was moved."""
        for queue_id in [*self._queues.get(_pair(topic, group), ())]:
            self.wake(topic, group, queue_id)

    def _note_arrival(self, queue: QueueTail) -> None:
        watched = self._watched[queue.topic]
        if not any(map(self._held.waits_on, watched.waits)):
            for pair in watched.waits:
                self._queues.pop(pair, None)
            del self._watched[queue.topic]
            self._arrivals.off_arrival(queue.topic, self._note_arrival)
            return
        before = watched.ends.get(queue.queue_id, queue.readable_end - 1)
        watched.ends[queue.queue_id] = queue.readable_end
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._serve_arrivals)
        key = queue.topic, queue.queue_id
        self._arrived[key] = self._arrived.get(key, 0) + max(1, queue.readable_end - before)

    def _serve_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for (name, queue_id), messages in arrived.items():
            watched = self._watched.get(name)
            if watched is None:
                continue
            for pair, is_own in watched.waits.items():
                # In a retry topic the queue is no number of the topic that was asked for.
                for at in (ANY_QUEUE, queue_id) if is_own else [*self._queues.get(pair, ())]:
                    if self._held.count(pair, at):
                        self._wake_later(pair, at, messages)

    def _wake_later(self, pair: str, queue_id: int, messages: int) -> None:
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._serve_woken)
        self._woken.append(_Wake(pair, queue_id, messages, self._held.count(pair, queue_id)))

    def _serve_woken(self) -> None:
        left, until = AT_ONCE, self._clock.monotonic() + TURN_S
        try:
            while self._woken and left > 0 and self._clock.monotonic() <= until:
                wake = self._woken[0]
                waiter = self._held.take_first(wake.pair, wake.queue_id) if wake.messages > 0 and wake.looks else None
                if waiter is None:
                    self._woken.popleft()
                    continue
                left -= 1
                wake.looks -= 1
                wake.messages -= self._retry(waiter)
        finally:  # also if serving one failed
            self._finish()
            if self._woken:
                asyncio.get_running_loop().call_soon(self._serve_woken)

    # --- their ends -----------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        due = self._held.next_deadline()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._clock.call_later(wait_until(due, self._clock.monotonic()), self._serve_due)

    def _serve_due(self) -> None:
        self._timer = None
        for waiter in self._held.take_due(self._clock.monotonic()):
            self._end(waiter.ticket)
        self._finish()
        self._set_timer()


def _pair(topic: str, group: str) -> str:
    return f"{topic}{SEPARATOR}{group}"
