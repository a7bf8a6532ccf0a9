"""The checker finds what is wrong in histories that were made up, and nothing in a good one."""

from __future__ import annotations

import pytest

from tests.faults.checker import Event, gap_s, judge, note_cases, note_gaps
from tests.faults.results import FaultRow, table

History = tuple[list[Event], list[Event], list[Event]]


def good() -> History:
    """Return what clients write when all is well: key `plain-0` in queue 0, `once-1` in queue 1."""
    sends, got, stored = list[Event](), list[Event](), list[Event]()
    for queue, key in enumerate(("plain-0", "once-1")):
        for number in (1, 2, 3):
            at = {"at": float(number)}
            where = {"queue": queue, "offset": number - 1}
            sends.append({"event": "send", "key": key, "number": number, **at})
            sends.append({"event": "ack", "key": key, "number": number, "position": 0, "tries": 1, **where, **at})
            got.append({"event": "got", "member": 0, "body": f"{key}|{number}", **where, **at})
            stored.append({"event": "stored", "body": f"{key}|{number}", **where})
    return sends, got, stored


def ack_of(history: History, body: str) -> Event:
    key, number = body.split("|")
    return next(e for e in history[0] if e["event"] == "ack" and (e["key"], e["number"]) == (key, int(number)))


def lost(history: History) -> None:
    del history[2][2], history[1][2]


def elsewhere(history: History) -> None:
    ack_of(history, "plain-0|3")["offset"] = 7


def taken_back(history: History) -> None:
    history[2][2]["body"] = "plain-0|4"
    history[0].append({"event": "send", "key": "plain-0", "number": 4, "at": 4.0})


def swapped(history: History) -> None:
    for place, number in ((1, 3), (2, 2)):
        ack_of(history, f"plain-0|{number}")["offset"] = place
        history[1][place]["body"] = history[2][place]["body"] = f"plain-0|{number}"


def doubled(history: History) -> None:
    history[2].append({"event": "stored", "body": "plain-0|3", "queue": 0, "offset": 3})


def doubled_by_once(history: History) -> None:
    ack_of(history, "once-1|3")["tries"] = 2
    history[2].append({"event": "stored", "body": "once-1|3", "queue": 1, "offset": 3})


def unsent(history: History) -> None:
    history[2].append({"event": "stored", "body": "plain-0|9", "queue": 0, "offset": 3})


def refused(history: History) -> None:
    ack_of(history, "plain-0|3").update(event="fail", may_be_stored=False)


def two_at_one_place(history: History) -> None:
    history[2].append({"event": "stored", "body": "plain-0|2", "queue": 0, "offset": 2})


def skipped(history: History) -> None:
    del history[1][1]


def out_of_turn(history: History) -> None:
    history[1][0], history[1][1] = history[1][1], history[1][0]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lost, "1 acked lost: plain-0|3"),
        (elsewhere, "acked elsewhere than it is"),
        (taken_back, "seen by a consumer, and not there"),
        (swapped, "order broken"),
        (doubled, "twice, though tried once"),
        (doubled_by_once, "twice, though sent by `once`"),
        (unsent, "nobody sent"),
        (refused, "stored, though its send was refused"),
        (two_at_one_place, "offsets with two messages"),
        (skipped, "never consumed"),
        (out_of_turn, "consumed out of order"),
    ],
)
def test_what_is_wrong_is_found(damage: object, words: str) -> None:
    history = good()
    assert callable(damage)
    damage(history)
    assert any(words in line for line in judge(*history).broken), judge(*history).broken


def test_a_good_history_breaks_nothing() -> None:
    verdict = judge(*good())
    assert (verdict.broken, verdict.acked, verdict.stored, verdict.duplicates) == ([], 6, 6, 0)


def test_what_may_be_is_counted_alone() -> None:
    """A repeat that was stored twice, a send of unknown outcome that is stored, a message that came again."""
    history = good()
    ack_of(history, "plain-0|3")["tries"] = 2
    history[2].append({"event": "stored", "body": "plain-0|3", "queue": 0, "offset": 3})
    history[0].append({"event": "send", "key": "plain-0", "number": 4, "at": 4.0})
    history[0].append({"event": "fail", "key": "plain-0", "number": 4, "may_be_stored": True, "at": 4.0})
    history[2].append({"event": "stored", "body": "plain-0|4", "queue": 0, "offset": 4})
    history[1].append(history[1][2])
    verdict = judge(*history)
    assert verdict.broken == []
    assert (verdict.duplicates, verdict.unknown, verdict.retried, verdict.redelivered) == (1, 1, 1, 1)


def test_a_gap_is_the_longest_wait_that_begins_with_the_fault() -> None:
    acked_at = [0.0, 1.0, 1.5, 4.0, 4.1, 9.0]
    assert gap_s(acked_at, began=1.2, ended=3.0) == 2.5
    assert gap_s(acked_at, began=3.0, ended=4.05) == pytest.approx(0.1)  # the one before is of another fault
    assert gap_s([], began=1.0, ended=3.0) == 2.0
    faults: list[Event] = [{"fault": "kill", "began": 4.05, "ended": 5.0}]
    note_gaps([{"event": "ack", "at": at} for at in acked_at], faults)
    assert faults[0]["gap"] == pytest.approx(4.9)


def test_what_was_lost_is_of_the_fault_that_began_last() -> None:
    sends, _, _ = good()
    faults: list[Event] = [{"fault": "kill", "began": 0.5}, {"fault": "cut", "began": 2.5}]
    note_cases(sends, faults, "lost", ["plain-0|2", "plain-0|3", "once-1|3"])
    assert [event["lost"] for event in faults] == [1, 2]


def test_the_table_has_times_of_faults_alone_and_losses_of_all() -> None:
    alone = FaultRow("kill", 2.0, 1.0, 3.0, 1, 100, 0, 0, 1)
    still = FaultRow("kill", 2.0, None, None, 1, 100, 0, 0, 0)
    both = FaultRow("cut+kill", 2.0, 9.0, 9.0, 1, 100, 2, 1, 0)
    cut, kill = table([alone, still, both])
    assert (kill["alone"], kill["with another"], kill["worst"], kill["lost"], kill["duplicates"]) == (
        2,
        1,
        "1.0 s",
        2,
        1,
    )
    assert (cut["fault"], cut["alone"], cut["worst"], cut["out of order"]) == ("cut", 0, "", 1)
