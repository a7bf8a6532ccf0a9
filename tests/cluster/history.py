"""What clients of a simulated cluster were told, and the check of it: acknowledged, seen, order, offsets, time.

Bodies are unique. A send that failed may be stored or not; everything else is a promise:

- what was acknowledged is read at the end, at the place that was told; nothing else was ever seen at that place
- what a consumer has seen is still there at the end
- acknowledged sends of one order key lie in their order
- what was rolled back is never seen; what was committed is there
- everything is there once: sends have names by which brokers know a repeat (`SendPolicy.once`)
- what is delayed does not come before its time
- what was popped and acknowledged does not come again
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.checker import Violation


class MessagePlace(NamedTuple):
    """A place in a queue."""

    topic: str
    queue: int
    offset: int


@dataclass(slots=True)
class ClientHistory:
    """Filled by the clients of `workload.py`, checked at the end."""

    acked: dict[bytes, MessagePlace] = field(default_factory=dict)
    shown: dict[MessagePlace, bytes] = field(default_factory=dict)  # to anybody: by an answer, or a delivery
    unknown: set[bytes] = field(default_factory=set)
    keys: dict[str, list[bytes]] = field(default_factory=dict)  # acknowledged sends of each order key, in their order
    due_ms: dict[bytes, float] = field(default_factory=dict)  # of delayed ones that were acknowledged: outside's time
    committed: set[bytes] = field(default_factory=set)
    rolled_back: set[bytes] = field(default_factory=set)
    pop_acked: set[bytes] = field(default_factory=set)
    popped: set[bytes] = field(default_factory=set)
    times_sure: bool = True  # no clock was wrong
    violation: Violation | None = None  # the first one: who notes it may be inside of a handler

    def _broken(self, what: str) -> Violation:
        self.violation = self.violation or Violation(what)
        return self.violation

    def ack(self, body: bytes, place: MessagePlace) -> None:
        self.show(place, body)
        self.acked[body] = place

    def show(self, place: MessagePlace, body: bytes) -> None:
        """Note what stands at a place, as somebody was told."""
        if self.shown.setdefault(place, body) != body:
            raise self._broken(f"{place} has {body!r} and had {self.shown[place]!r}")

    def come(self, place: MessagePlace, body: bytes, now_s: float) -> None:
        """Note that a consumer was given a message."""
        self.show(place, body)
        if body in self.rolled_back:
            raise self._broken(f"{body!r} was rolled back, and is delivered at {place}")
        if self.times_sure and now_s < self.due_ms.get(body, 0.0):
            raise self._broken(f"{body!r} comes {self.due_ms[body] - now_s:.3f} s before its time")

    def pop(self, body: bytes) -> None:
        if self.times_sure and body in self.pop_acked:
            raise self._broken(f"{body!r} was popped and acknowledged, and comes again")
        self.popped.add(body)

    @property
    def awaited(self) -> set[bytes]:
        """Return what has to be there at the end.

        What is delayed is due by its broker's clock: where one was set back by an hour it may wait that long."""
        delayed = self.due_ms if self.times_sure else {}
        return {*self.acked, *delayed, *self.committed}

    def check_end(self, found: dict[MessagePlace, bytes]) -> None:
        """Compare with all that is there at the end."""
        for place, body in self.shown.items():
            if found.get(place) != body:
                kind = "acknowledged" if self.acked.get(body) == place else "shown"
                raise Violation(f"{body!r} was {kind} at {place}, where {found.get(place)!r} is now")
        counts = Counter(found.values())
        for body in self.awaited:
            if not counts[body]:
                raise Violation(f"{body!r} was promised, and is nowhere")
        if twice := sorted(body for body, times in counts.items() if times > 1):
            raise Violation(f"{twice[0]!r} is there {counts[twice[0]]} times, and was sent once")
        if lost := [body for body in self.rolled_back if counts[body]]:
            raise Violation(f"{lost} were rolled back, and are there")
        first: dict[bytes, MessagePlace] = {}
        for place in sorted(found):
            first.setdefault(found[place], place)
        for key, bodies in self.keys.items():
            places = [first[body] for body in bodies]
            if places != sorted(places) or len({place.queue for place in places}) > 1:
                raise Violation(f"the messages of key {key} lie at {places}")
