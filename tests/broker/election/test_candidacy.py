"""Who may make itself master, with which set, and when a master's time is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.broker.election.acting_set import ActingSet
from pyromq.broker.election.candidacy import (
    CampaignView,
    ReplicaSeen,
    campaign_rank,
    elected_state,
    founding_state,
    is_missed,
    refusal,
)
from pyromq.broker.election.deposition import is_deposed, should_stop_reads
from pyromq.broker.election.set_state import SetState, decode_state
from pyromq.errors import ProtocolError

STATE = SetState(epoch=5, master=1, in_sync=frozenset({1, 2, 3}), minimum=2, set_epoch=9)
FULL, LESS = ReplicaSeen(5, 100), ReplicaSeen(5, 90)
LOST, LOST_MORE = ReplicaSeen(5, 80, True, True), ReplicaSeen(5, 70, True, True)
VIEW = CampaignView(me=2, own=FULL, state=STATE, alive={2: FULL, 3: FULL}, hears_master=False, master_is_gone=True)

CASES = [
    (VIEW, None),
    (replace(VIEW, me=4), "not in the in-sync set"),
    (replace(VIEW, hears_master=True), "is heard"),
    (replace(VIEW, master_is_gone=False), "nothing says"),
    (replace(VIEW, me=1, master_is_gone=False), None),  # restarted: the state names it, but an epoch is not resumed
    (replace(VIEW, own=LESS), None),  # each member has all that was acknowledged
    (replace(VIEW, own=LOST), "[1] may have it"),  # 1 is not there and may have it
    (replace(VIEW, own=LOST, alive={1: FULL, 3: LOST}), "[1] may have it"),
    (replace(VIEW, own=LOST, alive={1: LOST_MORE, 3: LOST_MORE}), None),
    (replace(VIEW, own=LOST, alive={1: ReplicaSeen(5, 10, True), 3: LOST_MORE}), "[1] may have it"),  # it follows
    (replace(VIEW, own=LOST_MORE, alive={1: LOST, 3: LOST_MORE}), "has more"),
    (replace(VIEW, own=LOST, alive={1: LOST, 3: LOST}), "has more"),  # equal: the smaller id
    (replace(VIEW, own=LOST, alive={1: LOST_MORE, 3: ReplicaSeen(6, 10, True, True)}), "has more"),
]


@pytest.mark.parametrize(("view", "reason"), CASES)
def test_who_may_campaign(view: CampaignView, reason: str | None) -> None:
    found = refusal(view)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert reason in found


@pytest.mark.parametrize(
    ("alive", "missed"),
    [
        ({2: FULL._replace(misses=5), 3: FULL._replace(misses=5)}, True),
        ({1: FULL, 2: FULL._replace(misses=5), 3: FULL._replace(misses=5)}, True),  # its lease is not over yet
        ({2: FULL._replace(misses=5), 3: FULL}, False),  # 3 hears it, or never did
        ({2: FULL._replace(misses=5), 3: FULL._replace(misses=4)}, False),  # it missed the one before
        ({2: FULL._replace(misses=5)}, False),  # alone it could not serve
    ],
)
def test_a_master_that_all_miss_is_gone(alive: dict[int, ReplicaSeen], missed: bool) -> None:
    assert is_missed(STATE, alive) == missed


def test_members_that_are_there_are_kept() -> None:
    """With {me} alone, one more death would be an outage."""
    state = elected_state(VIEW, 7)
    assert (state.epoch, state.master, state.in_sync, state.set_epoch) == (6, 2, frozenset({2, 3}), 10)
    assert state.minimum == 2


@pytest.mark.parametrize(
    ("alive", "kept"),
    [
        ({2: FULL}, {2, 3}),  # filled up to the minimum, with the master that is gone at last
        ({2: FULL, 3: LOST}, {1, 2}),  # one that lost its end does not count
        ({1: FULL, 2: FULL, 3: FULL}, {2, 3}),  # the entry of the master that is gone is still there
        ({2: FULL, 3: FULL, 4: FULL}, {2, 3}),  # 4 was not in the set
    ],
)
def test_the_set_of_a_new_master(alive: dict[int, ReplicaSeen], kept: set[int]) -> None:
    assert elected_state(replace(VIEW, alive=alive), 0).in_sync == kept


def test_the_longest_goes_first() -> None:
    assert campaign_rank(VIEW) == 0
    assert campaign_rank(replace(VIEW, own=LESS)) == 1
    assert campaign_rank(replace(VIEW, me=3, alive={1: FULL, 2: FULL})) == 1
    assert campaign_rank(replace(VIEW, own=LESS, alive={3: LOST})) == 0


def test_a_set_is_founded_by_one_and_serves_with_the_minimum() -> None:
    state = founding_state(7, 2, 0)
    assert (state.epoch, state.in_sync) == (1, frozenset({7}))
    assert ActingSet(7, state, confirmed=0, end=0).is_short


@pytest.mark.parametrize(
    ("read", "deposed"),
    [
        (None, True),
        (STATE, False),
        (STATE.with_set({1, 2}, 0), False),
        (replace(STATE, epoch=6), True),
        (replace(STATE, master=2), True),
        (replace(STATE, epoch=4, master=2), False),  # an older read
    ],
)
def test_deposition(read: SetState | None, deposed: bool) -> None:
    assert is_deposed(1, 5, read) == deposed


@pytest.mark.parametrize(
    ("heard", "over_s", "stops"), [([2, 3], 60.0, False), ([2], 60.0, True), ([2], 2.0, False), ([], 3.1, True)]
)
def test_reads_of_a_master_that_is_cut_off(heard: list[int], over_s: float, stops: bool) -> None:
    acting = ActingSet(1, STATE, confirmed=0, end=0)
    assert should_stop_reads(acting, heard, lease_over_s=over_s, ttl_s=3.0) == stops


def test_a_state_is_kept_as_it_was() -> None:
    state = replace(STATE, written_by=1, written_ms=1_700_000_000_000, elected_ms=1_600_000_000_000)
    assert decode_state(state.encode()) == state
    assert state.with_set([1, 2], 1_800_000_000_000).elected_ms == state.elected_ms  # no other master


def test_a_state_of_before_says_no_time_of_its_election() -> None:
    assert decode_state(STATE.encode().replace(b',"electedMs":0', b"")).elected_ms == 0


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"null", b'{"epoch":"x"}', STATE.encode()[:-5],
        STATE.encode().replace(b'"master":1', b'"master":9'),
        STATE.encode().replace(b'"epoch":5', b'"epoch":0'), STATE.encode().replace(b'"minimum":2', b'"minimum":0'),
    ],
)  # fmt: skip
def test_a_state_that_cannot_be(content: bytes) -> None:
    with pytest.raises(ProtocolError, match="state of"):
        decode_state(content)
