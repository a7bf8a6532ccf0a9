"""The checker of the simulation finds what it is there for, in histories made by hand."""

from __future__ import annotations

import pytest

from pyromq.broker.election.set_state import SetState
from tests.simulation.checker import AllowedLoss, Checker, Violation
from tests.simulation.disk import Record, ReplicaDisk

STATE = SetState(epoch=1, master=1, in_sync=frozenset({1, 2}), minimum=2)
BOTH = [frozenset({1, 2})]
RECORDS = [Record(1, value) for value in range(5)]


@pytest.fixture
def disks() -> dict[int, ReplicaDisk]:
    made = {number: ReplicaDisk(number) for number in (1, 2, 3)}
    for number in (1, 2):
        made[number].log += RECORDS
    return made


@pytest.fixture
def checker(disks: dict[int, ReplicaDisk]) -> Checker:
    made = Checker(disks, lambda: STATE)
    made.promise(1, 1, 4, BOTH)
    return made


def test_a_good_history(checker: Checker) -> None:
    checker.ack(1, 1, 3, RECORDS[3], BOTH)
    checker.show(2, 4)
    checker.lead(2, 2)


def test_two_masters_of_one_epoch(checker: Checker) -> None:
    with pytest.raises(Violation, match="two masters"):
        checker.promise(2, 1, 4, BOTH)


def test_a_member_that_lacks_a_record(checker: Checker, disks: dict[int, ReplicaDisk]) -> None:
    del disks[2].log[3:]
    with pytest.raises(Violation, match="2 may be elected, and lacks"):
        checker.check()


def test_an_ack_of_what_another_record_replaced(checker: Checker) -> None:
    with pytest.raises(Violation, match="something else stands"):
        checker.ack(1, 1, 2, Record(1, 99), BOTH)


def test_a_place_that_is_promised_twice(checker: Checker, disks: dict[int, ReplicaDisk]) -> None:
    disks[3].log += [*RECORDS[:3], Record(2, 99)]
    with pytest.raises(Violation, match="was promised"):
        checker.promise(3, 2, 4, [frozenset({2, 3})])


def test_fewer_than_the_minimum(checker: Checker) -> None:
    with pytest.raises(Violation, match="the minimum is 2"):
        checker.promise(1, 1, 5, [*BOTH, frozenset({1})])


def test_records_that_are_shown_too_early(checker: Checker) -> None:
    with pytest.raises(Violation, match="are confirmed"):
        checker.show(1, 5)


def test_readable_that_sinks(checker: Checker) -> None:
    checker.move_readable(1, 4)
    with pytest.raises(Violation, match="sank"):
        checker.move_readable(1, 3)
    with pytest.raises(Violation, match="below 4"):
        checker.cut(1, 3)


def test_a_leader_without_a_record(checker: Checker) -> None:
    with pytest.raises(Violation, match="3 leads without"):
        checker.lead(3, 2)


def test_a_leader_that_a_later_one_has_followed_already(disks: dict[int, ReplicaDisk]) -> None:
    state = SetState(epoch=3, master=3, in_sync=frozenset({3}), minimum=1)
    checker = Checker(disks, lambda: state)
    disks[3].log += [*RECORDS[:4], Record(3, 99)]
    checker.promise(3, 3, 5, [frozenset({3})])
    checker.lead(2, 2)
    with pytest.raises(Violation, match="2 leads without"):
        checker.lead(2, 4)


def test_a_loss_that_nobody_could_help(checker: Checker, disks: dict[int, ReplicaDisk]) -> None:
    for number in (1, 2):
        before = list(disks[number].log)
        del disks[number].log[2:]
        checker.lose_power(number, before, acks_synced=False)
    with pytest.raises(AllowedLoss):
        checker.lead(1, 2)


def test_a_loss_that_one_could_have_helped(checker: Checker, disks: dict[int, ReplicaDisk]) -> None:
    before = list(disks[1].log)
    del disks[1].log[2:]
    checker.lose_power(1, before, acks_synced=False)
    with pytest.raises(Violation, match=r"which \[\[1, 2\]\] had and only \[1\] lost"):
        checker.lead(1, 2)


def test_a_loss_of_what_is_promised_by_a_report_from_before(checker: Checker, disks: dict[int, ReplicaDisk]) -> None:
    before = list(disks[2].log)
    del disks[2].log[4:]
    checker.lose_power(2, before, acks_synced=False)
    checker.promise(1, 1, 5, BOTH)
    del disks[1].log[4:]
    checker.lose_power(1, [*RECORDS], acks_synced=False)
    with pytest.raises(AllowedLoss):
        checker.lead(1, 2)
