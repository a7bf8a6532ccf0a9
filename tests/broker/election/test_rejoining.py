"""What a replica is after a start, and where it cuts its log before it follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.election.amnesia import BootNote, decode_note, note_at_start
from pyromq.broker.election.joining import cut_to_follow, epochs_found
from pyromq.errors import ProtocolError
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch

RUNNING = BootNote("a", acks_synced=False)


@pytest.mark.parametrize(
    ("last", "boot", "amnesiac"),
    [
        (None, "a", False),
        (RUNNING, "a", False),  # killed: the page cache has it all
        (RUNNING, "b", True),
        (RUNNING.stopped(), "b", False),
        (BootNote("a", acks_synced=True), "b", False),
        (BootNote("a", acks_synced=False, is_amnesiac=True), "a", True),  # had not caught up yet
        (BootNote("a", acks_synced=False, is_amnesiac=True).stopped(), "b", True),
        (BootNote("a", acks_synced=False, is_amnesiac=True).caught_up(), "a", False),
    ],
)
@pytest.mark.parametrize("acks_synced", [False, True])  # of this start: what the last one did counts
def test_who_may_have_lost_its_end(last: BootNote | None, boot: str, amnesiac: bool, acks_synced: bool) -> None:
    note = note_at_start(last, boot, acks_synced=acks_synced)
    assert note == BootNote(boot, acks_synced, is_amnesiac=amnesiac)
    assert decode_note(note.encode()) == note


def test_a_note_that_cannot_be_read() -> None:
    with pytest.raises(ProtocolError, match="note of the last start"):
        decode_note(b"{")


def epochs(*entries: tuple[int, int]) -> EpochList:
    return EpochList(MasterEpoch(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("own", "own_end", "master", "master_end", "position"),
    [
        (epochs((1, 0)), 50, epochs((1, 0), (2, 60)), 80, 50),
        (epochs((1, 0)), 70, epochs((1, 0), (2, 60)), 80, 60),  # a tail that was never acknowledged
        (epochs((1, 0), (2, 60)), 90, epochs((1, 0), (3, 60)), 60, 60),  # two epochs at one place
        (epochs((1, 0), (2, 60)), 90, epochs((1, 0), (2, 60), (3, 75)), 75, 75),
        (epochs(), 0, epochs((4, 10)), 20, 0),
        (epochs((3, 0)), 4, epochs((4, 0)), 116, 0),  # what one master alone had written before it was replaced
        (epochs((1, 0)), 50, epochs((4, 10)), 20, None),
        (epochs(), 50, epochs(), 60, None),
        (epochs(), 50, epochs((1, 0)), 60, None),  # a log from before the set
    ],
)
def test_where_a_follower_cuts(
    own: EpochList, own_end: int, master: EpochList, master_end: int, position: int | None
) -> None:
    found = cut_to_follow(own, own_end, master, master_end, confirmed=0)
    assert (None if found is None else found.position) == position


def test_confirmed_bytes_that_go_are_counted() -> None:
    found = cut_to_follow(epochs((1, 0)), 70, epochs((1, 0), (2, 60)), 80, confirmed=65)
    assert found is not None
    assert found.lost_confirmed == 5


def test_epochs_that_a_power_cut_took_the_place_of() -> None:
    assert epochs_found(epochs((1, 0), (2, 60), (3, 75)), 60) == epochs((1, 0), (2, 60))
    assert epochs_found(epochs((1, 0), (2, 60)), 59) == epochs((1, 0))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), max_size=12))
def test_after_the_cut_the_logs_are_the_same_that_far(history: list[tuple[int, int]]) -> None:
    """Masters in turn, each with a copy that lags by chance: whoever joins the last has its prefix."""
    logs: dict[int, list[int]] = {1: [], 2: [], 3: []}
    lists = dict.fromkeys(logs, EpochList())
    for epoch, (master, written) in enumerate(history, 1):
        lists[master] = lists[master].begun(epoch, len(logs[master]))
        logs[master] += [epoch] * written
        follower = master % 3 + 1
        found = cut_to_follow(lists[follower], len(logs[follower]), lists[master], len(logs[master]), confirmed=0)
        if found is not None:
            assert logs[follower][: found.position] == logs[master][: found.position]
            logs[follower], lists[follower] = logs[master][:], lists[master]
