"""What may become of a half message: the table of states, and the ledger that changes them by it alone. Pure.

The ledger holds one byte for each half message from the oldest undecided one on, and for some before it, so that an
end that is sent twice is recognised. It is derived: `halves.py` makes it again from the op topic at a start.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto

from ...errors import PyroError
from ...kernel import state as hot


class State(IntEnum):
    HALF = 0  # undecided
    COMMITTED = 1
    ROLLED_BACK = 2
    DISCARDED = 3  # checked too often, or too old
    DECIDED = 4  # before this start; the op topic does not say how
    CARRIED = 5  # put again, since its file went: the copy stands for it


class Event(Enum):
    COMMIT = auto()
    ROLLBACK = auto()
    CHECKS_EXHAUSTED = auto()
    NOT_STORED = auto()  # the put that carries a decision out was refused
    COPIED = auto()  # put again, since its file goes
    NOTED = auto()  # an op message names it
    LEFT_OUT = auto()  # its record is gone, damaged or in quarantine, or nobody needs this copy


NEXT_STATE: dict[tuple[State, Event], State] = {
    (State.HALF, Event.COMMIT): State.COMMITTED,
    (State.HALF, Event.ROLLBACK): State.ROLLED_BACK,
    (State.HALF, Event.CHECKS_EXHAUSTED): State.DISCARDED,
    (State.HALF, Event.COPIED): State.CARRIED,
    (State.HALF, Event.NOTED): State.DECIDED,
    (State.HALF, Event.LEFT_OUT): State.DECIDED,
    # It is undecided as before.
    (State.COMMITTED, Event.NOT_STORED): State.HALF,
    (State.ROLLED_BACK, Event.NOT_STORED): State.HALF,
    (State.DISCARDED, Event.NOT_STORED): State.HALF,
    # The same end again, and our own op messages read back: nothing more happens.
    (State.COMMITTED, Event.COMMIT): State.COMMITTED,
    (State.ROLLED_BACK, Event.ROLLBACK): State.ROLLED_BACK,
    (State.DECIDED, Event.COMMIT): State.DECIDED,
    (State.DECIDED, Event.ROLLBACK): State.DECIDED,
    **{(state, Event.NOTED): state for state in State if state is not State.HALF},
}

REMEMBERED = 1_000_000  # decided ones before the oldest undecided


class IllegalTransition(PyroError):
    """The table has no transition from this state by this event."""


class Ledger:
    """By offset in the half topic's queue. Invariant: everything below `first` is decided."""

    def __init__(self, first: int, checks: dict[int, int] | None = None) -> None:
        """`checks`: how often producers were asked, by offset, for a kernel that reads the states."""
        self.first = first
        self.states = hot.HalfStates(first, {} if checks is None else checks)

    def state(self, offset: int) -> State:
        place = offset - self.states.origin
        if place < 0:
            return State.DECIDED
        known = self.states.states
        return State(known[place]) if place < len(known) else State.HALF

    def is_undecided(self, offset: int) -> bool:
        return self.state(offset) is State.HALF

    def move(self, offset: int, event: Event) -> State:
        """Change the state by the event and return the new one. IllegalTransition if the table has none."""
        before = self.state(offset)
        after = NEXT_STATE.get((before, event))
        if after is None:
            raise IllegalTransition(f"half message {offset} is {before.name}: {event.name} cannot happen to it")
        if after is not before:
            self._set(offset - self.states.origin, after)
            if after is State.HALF:
                self.first = min(self.first, offset)
        return after

    def _set(self, place: int, state: State) -> None:
        known = self.states.states
        if place >= len(known):
            known.extend(bytes(place + 1 - len(known)))
        known[place] = state

    def advance(self, end: int) -> int:
        """Move `first` to the oldest undecided one below `end`, or to `end`, and return it."""
        while self.first < end and not self.is_undecided(self.first):
            self.first += 1
        spare = self.first - self.states.origin - REMEMBERED
        if spare > REMEMBERED // 2:
            del self.states.states[:spare]
            self.states.origin += spare
        return self.first

    def skip_to(self, offset: int) -> None:
        """Move `first` to an offset before which nothing is left in the log."""
        self.first = max(self.first, offset)
