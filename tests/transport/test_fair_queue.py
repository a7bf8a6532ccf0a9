"""Order of service: classes by share, connections in turn."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.row import RequestClass
from pyromq.transport.turns.fair_queue import FairQueue

HEARTBEAT, SEND, PULL, QUERY, ADMIN = RequestClass
SHARES = {HEARTBEAT: 2, SEND: 3, PULL: 3, QUERY: 2, ADMIN: 1}


def queue() -> FairQueue[str, int]:
    return FairQueue(SHARES)


def test_one_connection_is_served_in_the_order_it_asked() -> None:
    fair = queue()
    for n in range(5):
        fair.put(SEND, "a", n)
    assert list(fair.turn()) == [("a", 0), ("a", 1), ("a", 2)]
    assert list(fair.turn()) == [("a", 3), ("a", 4)]
    assert not fair.has_work


def test_a_greedy_connection_does_not_starve_the_others() -> None:
    fair = queue()
    for n in range(1000):
        fair.put(SEND, "greedy", n)
    fair.put(SEND, "modest", 1)
    fair.put(SEND, "other", 2)
    assert list(fair.turn()) == [("greedy", 0), ("modest", 1), ("other", 2)]


def test_a_storm_of_one_class_does_not_delay_the_others() -> None:
    fair = queue()
    for n in range(1000):
        fair.put(ADMIN, "tool", n)
    for kind in (QUERY, PULL, SEND, HEARTBEAT):
        fair.put(kind, "client", int(kind))
    assert list(fair.turn()) == [
        ("client", HEARTBEAT),
        ("client", SEND),
        ("client", PULL),
        ("client", QUERY),
        ("tool", 0),
    ]


def test_a_turn_is_bounded_by_the_shares() -> None:
    fair = queue()
    for kind in RequestClass:
        for n in range(100):
            fair.put(kind, kind.name, n)
    assert Counter(key for key, _ in fair.turn()) == {kind.name: share for kind, share in SHARES.items()}


def test_a_held_connection_is_passed_over_until_it_resumes() -> None:
    fair = queue()
    fair.put(SEND, "deaf", 1)
    fair.suspend("deaf")
    fair.put(SEND, "deaf", 2)
    fair.put(PULL, "deaf", 3)
    assert list(fair.turn()) == []
    assert not fair.has_work
    assert fair.waiting(SEND) == 2
    fair.resume("deaf")
    assert list(fair.turn()) == [("deaf", 1), ("deaf", 2), ("deaf", 3)]


def test_holding_works_in_the_middle_of_a_turn() -> None:
    fair = queue()
    for n in range(3):
        fair.put(SEND, "deaf", n)
    fair.put(SEND, "other", 9)
    served = []
    for key, item in fair.turn():
        served.append((key, item))
        if key == "deaf":
            fair.suspend("deaf")
    assert served == [("deaf", 0), ("other", 9)]


def test_what_a_lost_connection_had_waiting_is_taken_out() -> None:
    fair = queue()
    fair.put(SEND, "gone", 1)
    fair.put(PULL, "gone", 2)
    fair.suspend("gone")
    fair.put(SEND, "here", 3)
    assert fair.discard("gone") == [1, 2]
    assert list(fair.turn()) == [("here", 3)]
    fair.put(SEND, "gone", 4)  # a key that was held is not held for ever
    assert list(fair.turn()) == [("gone", 4)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(list(RequestClass)), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["suspend", "resume", "discard"]), st.none(), st.sampled_from("abc")),
        st.tuples(st.just("turn"), st.none(), st.none()),
    ),
    max_size=60,
)


@given(STEPS)
def test_nothing_is_lost_or_served_twice_and_order_holds(
    steps: list[tuple[str, RequestClass | None, str | None]],
) -> None:
    fair = queue()
    expected: dict[tuple[RequestClass, str], deque[int]] = {}
    held: set[str] = set()
    kinds: dict[int, RequestClass] = {}
    for number, (what, kind, key) in enumerate(steps):
        if what == "put" and kind is not None and key is not None:
            fair.put(kind, key, number)
            expected.setdefault((kind, key), deque()).append(number)
            kinds[number] = kind
        elif what == "turn":
            for served_key, item in fair.turn():
                assert served_key not in held
                assert expected[kinds[item], served_key].popleft() == item
        elif key is not None:
            if what == "discard":
                dropped = [n for kind in RequestClass for n in expected.pop((kind, key), ())]
                assert fair.discard(key) == dropped
                held.discard(key)
            else:
                getattr(fair, what)(key)
                (held.add if what == "suspend" else held.discard)(key)
        for kind in RequestClass:
            assert fair.waiting(kind) == sum(len(q) for (k, _), q in expected.items() if k is kind)
        assert fair.has_work == any(q for (_, k), q in expected.items() if k not in held)
