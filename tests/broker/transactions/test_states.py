"""The states of half messages: every state with every event, and the ledger that holds them."""

from __future__ import annotations

from itertools import product

import pytest

from pyromq.broker.transactions import states
from pyromq.broker.transactions.states import NEXT_STATE, Event, IllegalTransition, Ledger, State

# The events that lead from an undecided half message to each state.
WAYS = {
    State.HALF: (),
    State.COMMITTED: (Event.COMMIT,),
    State.ROLLED_BACK: (Event.ROLLBACK,),
    State.DISCARDED: (Event.CHECKS_EXHAUSTED,),
    State.DECIDED: (Event.NOTED,),
    State.CARRIED: (Event.COPIED,),
}
ALLOWED = {
    State.HALF: set(Event) - {Event.NOT_STORED},
    State.COMMITTED: {Event.COMMIT, Event.NOT_STORED, Event.NOTED},
    State.ROLLED_BACK: {Event.ROLLBACK, Event.NOT_STORED, Event.NOTED},
    State.DISCARDED: {Event.NOT_STORED, Event.NOTED},
    State.DECIDED: {Event.COMMIT, Event.ROLLBACK, Event.NOTED},
    State.CARRIED: {Event.NOTED},
}


def ledger_in(state: State, offset: int = 7) -> Ledger:
    ledger = Ledger(0)
    for event in WAYS[state]:
        ledger.move(offset, event)
    assert ledger.state(offset) is state
    return ledger


@pytest.mark.parametrize(("state", "event"), [*product(State, Event)], ids=lambda one: one.name)
def test_an_event_changes_a_state_as_the_table_says_or_not_at_all(state: State, event: Event) -> None:
    ledger = ledger_in(state)
    if event in ALLOWED[state]:
        assert ledger.move(7, event) is NEXT_STATE[state, event] is ledger.state(7)
    else:
        with pytest.raises(IllegalTransition, match=f"{state.name}.*{event.name}"):
            ledger.move(7, event)
        assert ledger.state(7) is state


def test_what_is_decided_stays_so_unless_it_could_not_be_stored() -> None:
    for (state, event), after in NEXT_STATE.items():
        assert state is State.HALF or after is state or (event is Event.NOT_STORED and after is State.HALF)


def test_what_could_not_be_stored_is_the_oldest_undecided_again() -> None:
    ledger = ledger_in(State.COMMITTED, 0)
    assert ledger.advance(5) == 1
    ledger.move(0, Event.NOT_STORED)
    assert ledger.first == ledger.advance(5) == 0


def test_the_ledger_forgets_only_what_is_long_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "REMEMBERED", 10)
    ledger = Ledger(100)
    for offset in range(100, 200):
        if offset != 150:
            ledger.move(offset, Event.COMMIT)
    assert ledger.advance(200) == 150
    assert (ledger.state(145), ledger.state(150), ledger.state(151)) == (State.COMMITTED, State.HALF, State.COMMITTED)
    assert ledger.state(99) is State.DECIDED
    assert ledger.state(200) is State.HALF
    ledger.move(150, Event.ROLLBACK)
    assert ledger.advance(200) == 200
    assert ledger.state(195) is State.COMMITTED
    assert ledger.state(120) is State.DECIDED
