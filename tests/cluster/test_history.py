"""The check of what clients were told can fail: each broken promise is planted once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.history import ClientHistory, MessagePlace
from tests.simulation.checker import Violation

FIRST, SECOND, THIRD = (MessagePlace("t", 0, offset) for offset in range(3))


def told(history: ClientHistory) -> dict[MessagePlace, bytes]:
    """Fill a history in which all is well; return what is there at the end."""
    history.ack(b"a", FIRST)
    history.ack(b"b", SECOND)
    history.keys["k"] = [b"a", b"b"]
    history.committed.add(b"c")
    history.rolled_back.add(b"d")
    history.due_ms[b"c"] = 5.0
    history.come(THIRD, b"c", 5.0)
    history.pop(b"a")
    history.pop_acked.add(b"a")
    return {FIRST: b"a", SECOND: b"b", THIRD: b"c"}


def test_a_history_without_a_fault_is_taken() -> None:
    history = ClientHistory()
    history.check_end(told(history))
    assert history.violation is None


@pytest.mark.parametrize(
    ("says", "event"),
    [
        ("comes again", lambda history: history.pop(b"a")),
        ("was rolled back", lambda history: history.come(MessagePlace("t", 0, 7), b"d", 0.0)),
        ("before its time", lambda history: history.come(THIRD, b"c", 4.0)),
        ("and had", lambda history: history.ack(b"x", SECOND)),
    ],
)
def test_a_broken_promise_is_seen_at_once(says: str, event: Callable[[ClientHistory], None]) -> None:
    history = ClientHistory()
    told(history)
    with pytest.raises(Violation, match=says):
        event(history)
    assert history.violation is not None  # also where a handler swallows it


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("was acknowledged at", {FIRST: b"a", THIRD: b"c"}),
        ("was shown at", {FIRST: b"a", SECOND: b"b"}),
        ("is there 2 times", {FIRST: b"a", SECOND: b"b", THIRD: b"c", MessagePlace("t", 1, 0): b"b"}),
        ("are there", {FIRST: b"a", SECOND: b"b", THIRD: b"c", MessagePlace("t", 1, 0): b"d"}),
    ],
)
def test_a_broken_promise_is_seen_at_the_end(says: str, found: dict[MessagePlace, bytes]) -> None:
    history = ClientHistory()
    told(history)
    with pytest.raises(Violation, match=says):
        history.check_end(found)


def test_keys_out_of_order_are_seen() -> None:
    history = ClientHistory()
    found = told(history)
    history.keys["k"].reverse()
    with pytest.raises(Violation, match="key k lie"):
        history.check_end(found)
