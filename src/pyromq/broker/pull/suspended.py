"""Pulls that found nothing and wait: resumed by arrivals, or at their deadline, by one timer for all.

None costs a task. Arrivals of one turn of the loop are served together, so that many sends to a queue resume
its readers once. `long_poll` decides which; `handler.py` searches and answers. However many are resumed at once, some
are served in a turn of the loop and the others in the next ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ...ambient import Clock, Timer
from ...kernel.state import QueueTail
from ...transport.peer import Peer
from ..config import BrokerConfig
from ..reading.long_poll import Arrivals, LongPoll, SuspendedPull, wait_until
from .tickets import AnyTicket

Serve: TypeAlias = Callable[[SuspendedPull[AnyTicket]], bool]

AT_ONCE = 64  # pulls in a turn: about a millisecond


@dataclass(slots=True, eq=False, repr=False)
class SuspendedPulls:
    """Event loop only. `retry`: something new is there. `end`: the pull is to be answered whatever is found. Both
    say whether that took long: then others have their turn first. `dismiss` answers without looking. `dismissals` tells
    who read for long whether all were dismissed meanwhile."""

    clock: Clock
    arrivals: Arrivals
    retry: Serve
    end: Serve
    dismiss: Callable[[SuspendedPull[AnyTicket]], None]
    dismissals: int = 0
    _watched: set[str] = field(default_factory=set)  # topics that pulls wait on, or did a moment ago
    _pulls: LongPoll[AnyTicket] = field(default_factory=LongPoll)
    _arrived: dict[tuple[str, int], QueueTail] = field(default_factory=dict)
    # What is served in the next turns.
    _resumed: deque[tuple[SuspendedPull[AnyTicket], Serve]] = field(default_factory=deque)
    _timer: Timer | None = None
    _timer_at: float = 0.0

    def __len__(self) -> int:
        return len(self._pulls) + len(self._resumed)

    def all(self) -> list[SuspendedPull[AnyTicket]]:
        return [*self._pulls.suspended(), *(pull for pull, _ in self._resumed)]

    def has_pull(self, peer: Peer, topic: str, queue_id: int) -> bool:
        """Return whether a pull of this connection waits for messages of the queue."""
        return any(one.owner is peer and (one.topic, one.queue_id) == (topic, queue_id) for one in self.all())

    def add(
        self, place: tuple[str, int, int], wait_ms: int, peer: Peer, ticket: AnyTicket, config: BrokerConfig
    ) -> bool:
        """Suspend a pull by topic, queue and offset. False: it may not wait."""
        if not config.long_polling_enable:
            wait_ms = config.short_polling_time_mills
        size = ticket.size
        is_full = len(self._pulls) >= config.max_held_pulls or self._pulls.bytes + size > config.max_held_pull_bytes
        if wait_ms <= 0 or is_full:
            return False
        deadline = self.clock.monotonic() + wait_ms / 1000
        self.put_back(SuspendedPull(*place, deadline, peer, ticket, size))
        return True

    def put_back(self, pull: SuspendedPull[AnyTicket]) -> None:
        self._pulls.suspend(pull)
        if pull.topic not in self._watched:
            self._watched.add(pull.topic)
            self.arrivals.on_arrival(pull.topic, self._note_arrival)
        self._set_timer()

    def drop(self, peer: Peer) -> None:
        """Drop the pulls of a connection that is gone."""
        self._pulls.drop(peer)
        if self._resumed:
            self._resumed = deque(one for one in self._resumed if one[0].owner is not peer)

    def end_topic(self, topic: str) -> None:
        """Answer the topic's pulls, so that they ask again: it is gone, or its permission may be another."""
        for pull in self._pulls.take_topic(topic):
            self.end(pull)

    def end_all(self) -> None:
        """Answer every pull, so that the clients turn to another broker at once."""
        for pull in self._take_all():
            self.end(pull)

    def dismiss_all(self) -> None:
        """Answer every pull that nothing has come, whatever has: who asks again is judged anew."""
        self.dismissals += 1
        for pull in self._take_all():
            self.dismiss(pull)

    def _take_all(self) -> list[SuspendedPull[AnyTicket]]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        resumed, self._resumed = self._resumed, deque()
        return [*self._pulls.take_all(), *(pull for pull, _ in resumed)]

    # --- what resumes them -----------------------------------------------------------------------------------------

    def _note_arrival(self, queue: QueueTail) -> None:
        if not self._pulls.waits_on(queue.topic):  # not when the last was answered: its client mostly comes again
            self._watched.discard(queue.topic)
            self.arrivals.off_arrival(queue.topic, self._note_arrival)
            return
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._serve_arrivals)
        self._arrived[queue.topic, queue.queue_id] = queue

    def _serve_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, {}
        pulls: list[SuspendedPull[AnyTicket]] = []
        for (topic, queue_id), queue in arrived.items():
            pulls += self._pulls.take_arrived(topic, queue_id, queue.readable_end)
        self._serve(pulls, self.retry)

    def _serve(self, pulls: list[SuspendedPull[AnyTicket]], serve: Serve) -> None:
        is_due = bool(self._resumed)  # then a turn for them is set already
        self._resumed.extend((pull, serve) for pull in pulls)
        if not is_due:
            self._serve_resumed()

    def _serve_resumed(self) -> None:
        remaining = AT_ONCE
        try:
            while self._resumed and remaining > 0:
                pull, serve = self._resumed.popleft()
                remaining = 0 if serve(pull) else remaining - 1
        finally:  # also if serving one failed
            if self._resumed:
                asyncio.get_running_loop().call_soon(self._serve_resumed)

    def _set_timer(self) -> None:
        due = self._pulls.next_deadline()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self.clock.call_later(wait_until(due, self.clock.monotonic()), self._serve_due)

    def _serve_due(self) -> None:
        self._timer = None
        self._serve(self._pulls.take_due(self.clock.monotonic()), self.end)
        self._set_timer()
