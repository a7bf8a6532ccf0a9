"""Epoch lists: Java's files, the rules of a new master and of a follower, and where two logs agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.protocol.replication.epochs import Agreement, EpochList, MasterEpoch, decode_epochs
from tests.protocol.replication.recorded_streams import GOLDEN


def epochs(*entries: tuple[int, int]) -> EpochList:
    return EpochList(MasterEpoch(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("failover-a-epochFileCheckpoint", epochs((1, 0), (2, 48997))),
        ("failover-b-epochFileCheckpoint", epochs((1, 0), (2, 48997))),
        ("shrink-a-epochFileCheckpoint", epochs((1, 0), (5, 53223))),
        ("shrink-b-epochFileCheckpoint", epochs((1, 0), (5, 53223))),
    ],
)
def test_files_of_java(name: str, found: EpochList) -> None:
    content = (GOLDEN / "files" / name).read_bytes()
    assert decode_epochs(content) == found
    assert found.encode() == content


def test_vectors_of_the_java_class() -> None:
    assert epochs((1, 0)).encode() == b"1\n1725254278\n1-0\n"
    assert epochs((1, 0), (2, 57380)).encode() == b"2\n500020268\n1-0\n2-57380\n"


@pytest.mark.parametrize("content", [b"1\n0\n3-70\n", b"1\r\n0\r\n3-70\r\n", b"1\n0\n3-70"])
def test_a_checksum_of_0_and_other_line_ends_are_borne(content: bytes) -> None:
    assert decode_epochs(content) == epochs((3, 70))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no whole number"),
        (b"2\n500020268\n1-0\n", "2 epochs are announced, 1 are there"),
        (b"2\n500020268\n1-0\n2-57381\n", "checksum"),
        (b"1\n0\n1\n", "no whole number"),
        (b"1\n0\n-1-5\n", "no whole number"),
        (b"1\n0\n1-x\n", "no whole number"),
        (b"2\n0\n2-0\n1-5\n", "have to grow"),
        (b"2\n0\n1-5\n2-5\n", "have to grow"),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        decode_epochs(content)


def test_a_torn_file_is_never_taken_for_another_list() -> None:
    """Cut at every byte: an error, or the list itself where only the last line end is missing."""
    whole = epochs((1, 0), (2, 48997), (7, 60000))
    content = whole.encode()
    for cut in range(len(content) - 1):
        with pytest.raises(ProtocolError):
            decode_epochs(content[:cut])
    assert decode_epochs(content[:-1]) == whole


def test_a_new_master_drops_entries_that_nothing_was_written_under() -> None:
    assert epochs((1, 0), (2, 100)).begun(3, 150) == epochs((1, 0), (2, 100), (3, 150))
    assert epochs((1, 0), (2, 100)).begun(3, 100) == epochs((1, 0), (3, 100))
    assert epochs((1, 0), (2, 100)).begun(3, 40) == epochs((1, 0), (3, 40))
    assert epochs((1, 0)).begun(2, 0) == epochs((2, 0))
    assert EpochList().begun(1, 0) == epochs((1, 0))
    with pytest.raises(ProtocolError, match="cannot begin"):
        epochs((1, 0), (2, 100)).begun(2, 100)


def test_a_follower_learns_epochs_from_the_stream() -> None:
    known = epochs((1, 0), (2, 100))
    assert known.learned(2, 100) is known
    assert known.learned(4, 300) == epochs((1, 0), (2, 100), (4, 300))
    with pytest.raises(ProtocolError, match="its log is another one"):
        known.learned(2, 120)
    with pytest.raises(ProtocolError, match="cannot begin"):
        known.learned(1, 0)


def test_epochs_go_with_the_end_and_with_the_beginning_of_the_log() -> None:
    known = epochs((1, 0), (2, 100), (3, 200))
    assert known.cut(200) == epochs((1, 0), (2, 100))
    assert known.cut(201) == known
    assert known.cut(0) == EpochList()
    assert known.without_expired(0) == known
    assert known.without_expired(99) == known
    assert known.without_expired(100) == epochs((2, 100), (3, 200))
    assert known.without_expired(500) == epochs((3, 200))
    assert epochs((4, 50)).without_expired(10) == epochs((4, 50))


def test_the_epoch_of_a_position_and_its_end() -> None:
    known = epochs((1, 10), (2, 100))
    assert known.at(9, 120) is None
    assert known.at(10, 120) == (MasterEpoch(1, 10), 100)
    assert known.at(99, 120) == (MasterEpoch(1, 10), 100)
    assert known.at(100, 120) == (MasterEpoch(2, 100), 120)
    assert known.at(120, 120) == (MasterEpoch(2, 100), 120)  # what is written next
    assert known.at(121, 120) is None


@pytest.mark.parametrize(
    ("own", "own_end", "other", "other_end", "agreed"),
    [
        # The recorded failover: the old master had written on.
        (epochs((1, 0)), 56837, epochs((1, 0), (2, 48997)), 102467, Agreement(48997, epochs((1, 0)))),
        (epochs((1, 0)), 100, epochs((1, 0)), 80, Agreement(80, epochs((1, 0)))),
        (epochs((1, 0)), 80, epochs((1, 0)), 100, Agreement(80, epochs((1, 0)))),
        # Java keeps 150 here: two masters in a row began at one position.
        (epochs((1, 0), (2, 100)), 150, epochs((1, 0), (3, 100)), 150, Agreement(100, epochs((1, 0)))),
        # An entry without a record is kept if both have it.
        (epochs((1, 0), (3, 100)), 100, epochs((1, 0), (3, 100)), 130, Agreement(100, epochs((1, 0), (3, 100)))),
        # The same number, begun elsewhere: of another set.
        (epochs((1, 0), (2, 90)), 95, epochs((1, 0), (2, 80)), 95, Agreement(80, epochs((1, 0)))),
        # What has expired at the master is not compared.
        (epochs((1, 0), (2, 100)), 150, epochs((2, 100), (3, 120)), 500, Agreement(120, epochs((1, 0), (2, 100)))),
        (epochs((1, 0)), 150, epochs((2, 0)), 150, None),
        (EpochList(), 0, epochs((1, 0)), 5, None),
    ],
)
def test_how_far_two_logs_are_the_same(
    own: EpochList, own_end: int, other: EpochList, other_end: int, agreed: Agreement | None
) -> None:
    assert own.agreement(own_end, other, other_end) == agreed


@given(st.data())
def test_logs_are_equal_up_to_where_their_lists_agree(data: st.DataObject) -> None:
    """Any history of masters: one of three logs is made master at its end, the others follow a part of it or nothing.

    A log is the list of the epochs that wrote each position. Agreement cuts to a common beginning, and the cut log can
    follow: what it lacks is a continuation of what it has."""
    logs: list[list[int]] = [[], [], []]
    lists = [EpochList(), EpochList(), EpochList()]
    for number in range(1, data.draw(st.integers(1, 6)) + 1):
        master = data.draw(st.integers(0, 2))
        lists[master] = lists[master].begun(number, len(logs[master]))
        logs[master] += [number] * data.draw(st.integers(0, 3))
        for follower in {0, 1, 2} - {master}:
            if not data.draw(st.booleans()):
                continue
            agreed = lists[follower].agreement(len(logs[follower]), lists[master], len(logs[master]))
            if agreed is None:
                assert not set(logs[follower]) & set(logs[master])
                agreed = Agreement(0, EpochList())
            del logs[follower][agreed.position :]
            lists[follower] = agreed.epochs
            assert logs[follower] == logs[master][: len(logs[follower])]
            end = data.draw(st.integers(len(logs[follower]), len(logs[master])))
            while True:
                found = lists[master].at(len(logs[follower]), len(logs[master]))
                assert found is not None
                epoch, stop = found
                lists[follower] = lists[follower].learned(*epoch)
                if len(logs[follower]) >= end:
                    break
                logs[follower] += logs[master][len(logs[follower]) : min(stop, end)]
            assert logs[follower] == logs[master][:end]
