"""What a master may acknowledge: nobody of the acting set is left out, whatever the store has said so far."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.election.acting_set import ActingSet
from pyromq.broker.election.membership import next_set
from pyromq.broker.election.set_state import SetState
from pyromq.errors import ProtocolError


def acting(*members: int, minimum: int = 2, end: int = 100, confirmed: int = 0, start: int = 0) -> ActingSet:
    state = SetState(epoch=3, master=1, in_sync=frozenset(members), minimum=minimum)
    made = ActingSet(1, state, confirmed=confirmed, end=start)
    made.note_own(end)
    return made


def test_confirmed_is_what_all_have() -> None:
    made = acting(1, 2, 3)
    made.note_report(2, 90)
    assert made.confirmed == 0  # 3 has said nothing
    made.note_report(3, 40)
    assert made.confirmed == 40
    made.note_report(3, 100)
    assert made.confirmed == 90
    made.note_report(2, 100)
    assert made.confirmed == 100
    made.note_own(120)
    assert made.confirmed == 100


def test_confirmed_never_sinks() -> None:
    made = acting(1, 2, confirmed=80)
    made.note_report(2, 30)  # a member that was kept and is catching up
    assert made.confirmed == 80
    made.note_report(2, 100)
    made.begin_stream(2)
    made.note_report(2, 10)
    assert made.confirmed == 100


@pytest.mark.parametrize("position", [-1, 49, 101])
def test_reports_that_cannot_be_true(position: int) -> None:
    made = acting(1, 2)
    made.note_report(2, 50)
    with pytest.raises(ProtocolError, match="close its stream"):
        made.note_report(2, position)
    assert made.confirmed == 50


def test_a_report_of_an_earlier_stream_does_not_count() -> None:
    made = acting(1, 2)
    made.note_report(2, 50)
    made.begin_stream(2)
    made.note_own(200)
    assert made.confirmed == 50
    assert made.report_of(2) is None


def test_one_that_is_added_must_acknowledge_before_the_store_knows() -> None:
    made = acting(1, 2)
    made.note_report(2, 50)
    made.note_report(3, 50)
    made.propose(frozenset({1, 2, 3}))
    assert made.members == {1, 2, 3}
    made.note_report(2, 100)
    assert made.confirmed == 50
    made.note_report(3, 70)
    assert made.confirmed == 70


def test_one_that_leaves_is_asked_until_the_store_has_said_done() -> None:
    made = acting(1, 2, 3)
    made.note_report(2, 50)
    made.note_report(3, 50)
    state = made.state.with_set({1, 2}, 0)
    made.propose(state.in_sync)
    made.note_report(2, 100)
    made.note_report(3, 90)
    assert made.confirmed == 50  # what 3 says now may be on no medium when it is gone
    made.settle(state)
    assert made.members == {1, 2}
    assert made.confirmed == 100


def test_unknown_changes_count_together_until_one_is_settled() -> None:
    made = acting(1, 2)
    for replica in (2, 3, 4):
        made.note_report(replica, 50)
    made.propose(frozenset({1, 2, 3}))
    made.propose(frozenset({1, 2, 4}))
    assert made.members == {1, 2, 3, 4}
    assert made.is_undecided
    made.settle(made.state.with_set({1, 2, 4}, 0))
    assert made.members == {1, 2, 4}
    assert not made.is_undecided


def test_what_is_behind_may_not_join() -> None:
    made = acting(1, 2)
    made.note_report(2, 50)
    made.note_report(3, 49)
    assert not made.may_join(3)
    assert not made.may_join(4)
    with pytest.raises(ValueError, match="behind are"):
        made.propose(frozenset({1, 2, 3}))


def test_who_has_not_what_earlier_epochs_may_have_confirmed_may_not_join() -> None:
    """A new master knows of 50; its predecessor may have got up to 90 acknowledged, which is where the epoch begins."""
    made = acting(1, 2, confirmed=50, start=90)
    made.note_report(3, 89)
    assert not made.may_join(3)
    made.note_report(3, 90)
    assert made.may_join(3)


def test_acks_that_wait_for_the_medium() -> None:
    state = SetState(epoch=3, master=1, in_sync=frozenset({1, 2}), minimum=2)
    made = ActingSet(1, state, confirmed=0, end=60, synced=40)
    made.note_report(2, 60)  # the other's medium may be faster
    assert made.confirmed == 40
    made.note_end(80)
    made.note_report(2, 80)
    made.note_own(70)
    assert made.confirmed == 70


@pytest.mark.parametrize("smaller", [{1}, {2, 3}])
def test_sets_that_no_master_asks_for(smaller: set[int]) -> None:
    with pytest.raises(ValueError, match="may not follow"):
        acting(1, 2, 3).propose(frozenset(smaller))


def test_too_few_for_the_minimum() -> None:
    assert not acting(1, 2).is_short
    alone = acting(1)
    assert alone.is_short
    alone.note_report(2, 100)
    alone.propose(frozenset({1, 2}))
    assert alone.is_short  # 2 could not be elected if 1 were gone: the store may not have it yet
    assert alone.members == {1, 2}
    assert alone.possible == (frozenset({1}), frozenset({1, 2}))
    alone.settle(alone.state.with_set({1, 2}, 0))
    assert not alone.is_short
    assert alone.possible == (frozenset({1, 2}),)


SETS = [
    # recorded, gone, candidates with all, the set that is asked for
    ({1, 2, 3}, set(), set(), None),
    ({1, 2, 3}, {3}, set(), {1, 2}),
    ({1, 2, 3}, {2, 3}, set(), {1, 2}),  # one of them stays: the minimum
    ({1, 2}, {2}, set(), None),
    ({1, 2}, {2}, {3}, {1, 3}),  # one takes the other's place at once
    ({1, 2}, set(), {3}, {1, 2, 3}),
    ({1}, set(), {2}, {1, 2}),
    ({1}, set(), set(), None),
    ({1, 2}, {1}, set(), None),  # nobody puts itself out
]


@pytest.mark.parametrize(("recorded", "gone", "candidates", "wanted"), SETS)
def test_the_next_set(recorded: set[int], gone: set[int], candidates: set[int], wanted: set[int] | None) -> None:
    made = acting(*recorded)
    for replica in candidates:
        made.note_report(replica, 100)
    found = next_set(made, gone, candidates)
    assert (found and found.in_sync) == wanted
    if found is not None:
        assert found.needs_sync == (not recorded <= found.in_sync)
        made.propose(found.in_sync)


def test_a_candidate_that_is_behind_is_left_out() -> None:
    made = acting(1, 2, confirmed=60)
    made.note_report(3, 59)
    assert next_set(made, set(), {3, 4}) is None


def test_an_unknown_change_is_fenced_by_another_one() -> None:
    """Also where the recorded set is the right one: only a change that is done keeps the unknown one from coming."""
    made = acting(1, 2)
    made.note_report(3, 100)
    made.propose(frozenset({1, 2, 3}))
    fence = next_set(made, {3}, set())
    assert fence is not None
    assert fence == (frozenset({1, 2}), True)


@given(st.data())
def test_confirmed_is_in_every_log_of_the_acting_set(data: st.DataObject) -> None:
    made = acting(1, 2, 3, end=0)
    logs = dict.fromkeys((1, 2, 3, 4), 0)
    for _ in range(data.draw(st.integers(1, 40))):
        before = made.confirmed
        match data.draw(st.sampled_from(["append", "report", "stream", "propose", "done"])):
            case "append":
                logs[1] += data.draw(st.integers(1, 5))
                made.note_own(logs[1])
            case "report":
                replica = data.draw(st.sampled_from([2, 3, 4]))
                logs[replica] = data.draw(st.integers(logs[replica], logs[1]))
                made.note_report(replica, logs[replica])
            case "stream":
                made.begin_stream(data.draw(st.sampled_from([2, 3, 4])))
            case "propose":
                gone = data.draw(st.sets(st.sampled_from([2, 3, 4])))
                proposal = next_set(made, gone, {4} - gone)
                if proposal is not None:
                    made.propose(proposal.in_sync)
            case "done":
                made.settle(made.state.with_set(data.draw(st.sampled_from([made.state.in_sync, *made._undecided])), 0))
        assert made.confirmed >= before
        if made.confirmed > before:
            assert all(logs[replica] >= made.confirmed for replica in made.members)
