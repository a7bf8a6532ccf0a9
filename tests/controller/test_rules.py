"""What a controller may change of a set: a case for each refusal, with Java's code and text."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.controller import rules
from pyromq.controller.electing import ANYBODY, Candidates, LogEnd, led_by, led_by_nobody, master_of
from pyromq.controller.replica_set import KnownReplica, ReplicaSet, decode_set
from pyromq.coordination.store import CoordinationRefused
from pyromq.errors import RequestRefused

LOWEST = (1 << 31) - 1


def three(**other: Any) -> ReplicaSet:
    replicas = {number: KnownReplica(f"b{number}:10911", f"b{number}:10911;1") for number in (1, 2, 3)}
    facts: dict[str, Any] = {
        "epoch": 4,
        "master": 1,
        "in_sync": frozenset({1, 2}),
        "set_epoch": 7,
        "next_id": 4,
    } | other
    return ReplicaSet(replicas=replicas, **facts)


def heard(*replicas: int, **ends: LogEnd) -> Candidates:
    known = {replica: ends.get(f"r{replica}", LogEnd(4, 100, LOWEST)) for replica in replicas}
    return Candidates(known, lambda replica: replica in known)


def refused(code: int, remark: str) -> Any:
    class Expected:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> bool:
            assert isinstance(fault, RequestRefused), fault
            assert (fault.code, str(fault)) == (code, remark)
            return True

    return Expected()


# --- ids --------------------------------------------------------------------------------------------------------------


def test_the_first_id_makes_the_set() -> None:
    made = rules.with_id(None, "a", 1, "h:1;99")
    assert (made.replicas, made.next_id, made.epoch, made.master) == ({1: KnownReplica("h:1", "h:1;99")}, 2, 0, None)


def test_an_id_may_be_asked_for_again_with_its_code() -> None:
    made = rules.with_id(None, "a", 1, "h:1;99")
    assert rules.with_id(made, "a", 1, "h:1;99") == made


def test_an_id_of_another_broker_and_one_of_a_set_that_is_not_there_are_refused() -> None:
    with refused(2014, "Fail to apply brokerId: 1 in broker-set: a"):
        rules.with_id(three(), "a", 1, "h:9;99")
    with refused(2014, "Fail to apply brokerId: 0 in broker-set: a"):
        rules.with_id(three(), "a", 0, "h:9;99")
    with refused(2014, "Broker-set: a hasn't been registered in controller, but broker try to apply brokerId: 2"):
        rules.with_id(None, "a", 2, "h:9;99")


def test_no_id_is_given_out_twice() -> None:
    assert rules.with_id(three(), "a", 9, "h:9;99").next_id == 10
    assert rules.without(three(), "a", "3", even_living=False, is_alive=lambda _: False).next_id == 4  # type: ignore[union-attr]


def test_a_broker_that_moved_is_known_at_its_new_address() -> None:
    moved = rules.with_address(three(), "a", 2, "new:1")
    assert moved.replicas[2] == KnownReplica("new:1", "b2:10911;1")
    assert rules.with_address(moved, "a", 2, "new:1") is moved
    with refused(2010, "BrokerId: 9 hasn't been registered in broker-set: a"):
        rules.with_address(three(), "a", 9, "new:1")
    with refused(2010, "Broker-set: a hasn't been registered in controller"):
        rules.with_address(None, "a", 1, "new:1")


# --- the in-sync set --------------------------------------------------------------------------------------------------


def alter(found: ReplicaSet | None, members: set[int], **other: Any) -> ReplicaSet:
    facts: dict[str, Any] = {"master": 1, "epoch": 4, "set_epoch": 7, "minimum": 1, "is_alive": lambda _: True}
    return rules.with_in_sync(found, members, **(facts | other))


def test_the_master_changes_the_in_sync_set() -> None:
    grown = alter(three(), {1, 2, 3})
    assert (grown.in_sync, grown.set_epoch, grown.epoch) == (frozenset({1, 2, 3}), 8, 4)
    assert alter(three(), {1}).in_sync == {1}


REJECT = "Rejecting alter syncStateSet request because the"


@pytest.mark.parametrize(
    ("members", "other", "code", "remark"),
    [
        ({1, 2}, {}, 2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"),
        ({1}, {"master": 2}, 2002, f"{REJECT} current leader is:{{1}}, not {{2}}"),
        ({1}, {"master": None}, 2002, f"{REJECT} current leader is:{{1}}, not {{null}}"),
        ({1}, {"epoch": 3}, 2000, f"{REJECT} current master epoch is:{{4}}, not {{3}}"),
        ({1}, {"set_epoch": 6}, 2001, f"{REJECT} current syncStateSet epoch is:{{7}}, not {{6}}"),
        ({1, 9}, {}, 2003, f"{REJECT} replicas {{9}} don't exist"),
        ({1, 3}, {"is_alive": lambda one: one != 3}, 2006, f"{REJECT} replicas {{3}} don't alive"),
        ({2, 3}, {}, 2013, f"{REJECT} newSyncStateSet don't contains origin leader {{1}}"),
    ],
)
def test_a_set_is_refused_as_java_refuses_it(members: set[int], other: dict[str, Any], code: int, remark: str) -> None:
    with refused(code, remark):
        alter(three(), members, **other)


def test_a_set_that_nobody_knows_has_no_in_sync_set() -> None:
    with refused(2013, "Broker metadata is not existed"):
        alter(None, {1})


def test_no_set_is_made_smaller_than_the_minimum_but_a_small_one_may_grow() -> None:
    with pytest.raises(RequestRefused, match="would have 1 members, and minInSyncReplicas is 2") as found:
        alter(three(), {1}, minimum=2)
    assert found.value.code == 2013
    assert alter(three(in_sync=frozenset({1})), {1, 2}, minimum=3).in_sync == {1, 2}
    with pytest.raises(RequestRefused, match="minInSyncReplicas is 3"):
        alter(three(), {1, 3}, minimum=3)  # one comes, one goes
    assert alter(three(in_sync=frozenset({1, 2, 3})), {1, 3}, minimum=2).in_sync == {1, 3}


# --- elections --------------------------------------------------------------------------------------------------------


def elect(found: ReplicaSet | None, candidates: Candidates, **other: Any) -> int | None:
    facts: dict[str, Any] = {"asker": ANYBODY, "designated": False, "unclean": False}
    return master_of(found, "a", candidates, **(facts | other))


def test_the_first_master_is_who_asks() -> None:
    new = three(epoch=0, master=None, in_sync=frozenset(), set_epoch=0)
    assert elect(new, heard(), asker=3) == 3
    with refused(2010, "BrokerId: 9 hasn't been registered in broker-set: a"):
        elect(new, heard(), asker=9)
    with refused(2010, "Broker hasn't been registered"):
        elect(None, heard(), asker=1)
    assert elect(new, heard(1, 2, 3)) is None  # nobody asked, and nobody is in sync


@pytest.mark.parametrize(
    ("candidates", "other", "master"),
    [
        (heard(1, 2, 3), {}, 1),  # who leads and lives stays
        (heard(2, 3), {}, 2),  # only who is in sync
        (heard(3), {}, None),
        (heard(3), {"unclean": True}, 3),
        (heard(1, 2, 3), {"asker": 2, "designated": True}, 2),
        (heard(1, 2, 3), {"asker": 1, "designated": True}, 1),
        (heard(1, 2, 3), {"asker": 3, "designated": True}, None),
        (heard(1), {"asker": 2, "designated": True}, None),
        (heard(1, 2, 3), {"asker": 3, "designated": True, "unclean": True}, 3),
        (heard(1, 2, 3), {"asker": 2}, 1),  # a broker that asks for itself is no wish
    ],
)
def test_who_is_elected(candidates: Candidates, other: dict[str, Any], master: int | None) -> None:
    assert elect(three(), candidates, **other) == master


@pytest.mark.parametrize(
    ("ends", "master"),
    [
        ({"r2": LogEnd(4, 100, 5), "r3": LogEnd(4, 101, 9)}, 3),
        ({"r2": LogEnd(5, 100, 5), "r3": LogEnd(4, 10_000, 1)}, 2),
        ({"r2": LogEnd(4, 100, 5), "r3": LogEnd(4, 100, 1)}, 3),
        ({"r2": LogEnd(4, 100, 5), "r3": LogEnd(4, 100 + (5 << 30), 9)}, 3),  # Java's order is wrong from 2 GiB on
    ],
)
def test_the_longest_log_is_elected_then_the_smallest_priority(ends: dict[str, LogEnd], master: int) -> None:
    assert elect(three(in_sync=frozenset({1, 2, 3})), heard(2, 3, **ends)) == master


def test_a_master_that_had_no_time_to_speak_stays() -> None:
    young = Candidates({2: LogEnd(4, 100, LOWEST)}, lambda _: True)
    assert elect(three(), young, asker=2) == 1
    assert elect(three(), young, asker=2, designated=True) == 2


def test_a_new_master_begins_with_itself_and_one_that_is_lost_leaves_the_set_as_it_is() -> None:
    led = led_by(three(), 2, now_ms=5, why="w")
    assert (led.epoch, led.master, led.in_sync, led.set_epoch) == (5, 2, frozenset({2}), 8)
    nobody = led_by_nobody(three(), now_ms=5, why="w")
    assert (nobody.epoch, nobody.master, nobody.in_sync, nobody.set_epoch) == (5, None, frozenset({1, 2}), 7)


# --- forgetting -------------------------------------------------------------------------------------------------------


def test_replicas_are_forgotten_by_id_and_a_whole_set_at_once() -> None:
    left = rules.without(three(), "a", "2;3", even_living=False, is_alive=lambda one: one == 1)
    assert left is not None
    assert (set(left.replicas), left.in_sync, left.master) == ({1}, frozenset({1}), 1)
    assert rules.without(three(master=None), "a", "", even_living=False, is_alive=lambda _: False) is None
    assert rules.without(three(), "a", "", even_living=True, is_alive=lambda _: True) is None
    assert rules.without(three(), "a", "1;2;3", even_living=False, is_alive=lambda _: False) is None


def test_who_lives_is_not_forgotten() -> None:
    with refused(2009, "Broker [a,  2] is still alive, clean up failure"):
        rules.without(three(), "a", "2", even_living=False, is_alive=lambda _: True)
    with refused(2009, "Broker a is still alive, clean up failure"):
        rules.without(three(), "a", "", even_living=False, is_alive=lambda _: False)
    with refused(2009, "Broker a is not existed,clean broker data failure."):
        rules.without(None, "a", "", even_living=True, is_alive=lambda _: False)
    with pytest.raises(RequestRefused, match="according to the format"):
        rules.without(three(), "a", "x", even_living=False, is_alive=lambda _: False)


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_a_set_is_read_as_it_was_written_and_what_is_none_is_named() -> None:
    assert decode_set(three().encode(), "k") == three()
    with pytest.raises(CoordinationRefused, match="/pyromq/c/a/controlled of the coordination store cannot be read"):
        decode_set(b'{"epoch":"x"}', "/pyromq/c/a/controlled")
