"""What may become of a half message, and which became what: the table of states and the ledger that follows it. Pure.

The ledger holds one byte for each half message from the oldest undecided one on, and for some before it, so that an
end that is told twice is recognised. It is derived: `halves.py` makes it again from the op topic at a start.
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    HALF = 0  # undecided
    COMMITTED = 1
    ROLLED_BACK = 2
    DISCARDED = 3  # checked too often, or too old
    DECIDED = 4  # before this start; the op topic does not say how
    CARRIED = 5  # put again, since its file went: the copy stands for it


class Event(IntEnum):
    COMMIT = 8  # the numbers are those of request 37
    ROLLBACK = 12
    UNKNOWN = 0
    CHECKS_EXHAUSTED = 1
    PUT_AGAIN = 2


NEXT_STATE = {
    (State.HALF, Event.COMMIT): State.COMMITTED,
    (State.HALF, Event.ROLLBACK): State.ROLLED_BACK,
    (State.HALF, Event.UNKNOWN): State.HALF,  # stays half, checked again later
    (State.HALF, Event.CHECKS_EXHAUSTED): State.DISCARDED,
    (State.HALF, Event.PUT_AGAIN): State.CARRIED,
    # Told again: nothing more happens.
    (State.COMMITTED, Event.COMMIT): State.COMMITTED,
    (State.ROLLED_BACK, Event.ROLLBACK): State.ROLLED_BACK,
    (State.DECIDED, Event.COMMIT): State.DECIDED,
    (State.DECIDED, Event.ROLLBACK): State.DECIDED,
}

REMEMBERED = 1_000_000  # decided ones before the oldest undecided


class Ledger:
    """By offset in the half topic's queue. Invariant: everything below `first` is decided."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._origin = first
        self._states = bytearray()

    def state(self, offset: int) -> State:
        if offset < self._origin:
            return State.DECIDED
        place = offset - self._origin
        return State(self._states[place]) if place < len(self._states) else State.HALF

    def set(self, offset: int, state: State) -> None:
        """Also back to HALF, where a decision could not be stored."""
        if offset < self._origin:
            return
        place = offset - self._origin
        if place >= len(self._states):
            self._states.extend(bytes(place + 1 - len(self._states)))
        self._states[place] = state
        if state is State.HALF:
            self.first = min(self.first, offset)

    def advance(self, end: int) -> int:
        """The oldest undecided below `end`, or `end`: everything before it need not be looked at again."""
        while self.first < end and self.state(self.first) is not State.HALF:
            self.first += 1
        spare = self.first - self._origin - REMEMBERED
        if spare > REMEMBERED // 2:
            del self._states[:spare]
            self._origin += spare
        return self.first

    def skip_to(self, offset: int) -> None:
        """Nothing before it is there any more."""
        self.first = max(self.first, offset)
