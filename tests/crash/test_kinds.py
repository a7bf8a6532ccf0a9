"""Every kind of message under kill -9: CI's share of `tests.crash.kinds`, and faults on purpose that it must notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kinds import Plan, run
from tests.crash.kinds_broker import FAULTS
from tests.crash.kinds_ledger import End, Ledger, Outage, Sent

KINDS = {
    "plain",
    "ordered",
    "delayed",
    "timed",
    "retried",
    "rejected",
    "exhausted",
    "committed",
    "committed-when-asked",
    "rolled-back",
    "rolled-back-when-asked",
}


async def test_every_promise_is_kept_through_kills(tmp_path: Path) -> None:
    problems, figures = await run(tmp_path, Plan(seconds=10, seed=4, kill_every_s=(1.5, 4.0), least_kills=2))
    assert problems == [], figures
    kills = figures["kills"]
    assert isinstance(kills, int)
    assert kills >= 2
    acked = figures["acked"]
    assert isinstance(acked, dict)
    assert set(acked) == KINDS
    assert all(acked.values())
    assert figures["stored"] in range(sum(acked.values()) // 2, 2 * sum(acked.values()))


# Of two kinds, since a rollback that commits cannot be seen where commits are lost.
TOGETHER = [
    ["lost_send", "dropped_retry", "early_delivery", "lost_commit", "out_of_order"],
    ["stored_twice", "rollback_commits"],
]


@pytest.mark.parametrize("faults", TOGETHER, ids=["losses", "additions"])
async def test_faults_are_noticed(faults: list[str], tmp_path: Path) -> None:
    plan = Plan(seconds=2.5, fault=",".join(faults), kill_every_s=None, patience_s=4)
    problems, _ = await run(tmp_path, plan)
    for fault in faults:
        said = FAULTS[fault][1]
        assert any(problem.startswith(said) for problem in problems), (fault, problems)


def test_every_fault_is_tried() -> None:
    assert sorted(fault for faults in TOGETHER for fault in faults) == sorted(FAULTS)


# --- the judge itself -------------------------------------------------------------------------------------------------


def ledger(*sent: Sent, kills: tuple[tuple[int, int], ...] = ()) -> Ledger:
    found = Ledger({1: 1000, 2: 2000}, outages=[Outage(*kill) for kill in kills])
    for one in sent:
        one.acked = True
        found.send(one)
    return found


def words(found: Ledger) -> list[str]:
    return [problem.partition(":")[0] for problem in found.problems()]


def test_lost_strange_and_unwanted() -> None:
    found = ledger(Sent("a", "plain", 0), Sent("b", "dead", 0, End.DEAD), Sent("c", "rolled back", 0, End.NEVER))
    assert words(found) == ["LOST", "LOST"]
    found.delivered("a", 0, 10)
    found.dead["b"].append(20)
    assert words(found) == []
    found.delivered("c", 0, 10)
    found.delivered("d", 0, 10)
    assert sorted(words(found)) == ["STRANGE", "UNWANTED"]


def test_early_by_delay_timer_and_retry() -> None:
    found = ledger(Sent("a", "delayed", 100, delay_ms=1000), Sent("b", "timed", 100, due_ms=5000))
    found.delivered("a", 0, 1100)
    found.delivered("b", 0, 5000)
    assert words(found) == []
    found.sent["a"].delay_ms = 1001
    found.sent["b"].due_ms = 5001
    assert words(found) == ["EARLY", "EARLY"]
    for at, expected in ((1210, []), (1209, ["EARLY"])):
        found = ledger(Sent("r", "retried", 100, fails=1))
        found.delivered("r", 0, 210)
        found.delivered("r", 1, at)
        assert words(found) == expected


def test_twice_is_allowed_near_a_kill_and_for_a_send_without_answer() -> None:
    for kills, tries, expected in (
        ((), 1, ["TWICE"]),
        (((50_000, 51_000),), 1, []),
        (((500_000, 501_000),), 1, ["TWICE"]),
        ((), 2, []),
    ):
        found = ledger(Sent("a", "plain", 0, tries=tries), kills=kills)
        found.delivered("a", 0, 49_000)
        found.delivered("a", 0, 52_000)
        assert words(found) == expected


def test_one_copy_for_each_send_kill_or_not() -> None:
    found = ledger(Sent("a", "delayed", 0), Sent("b", "plain", 0, tries=2), kills=((1, 2),))
    for key in ("a", "b"):
        found.delivered(key, 0, 10)
        found.stored[key] = 2
    assert words(found) == ["STORED"]


def test_order_within_a_lane() -> None:
    found = ledger(
        *(Sent(f"{number}", "ordered", 0, lane="x", number=number, fails=number == 1) for number in range(3))
    )
    found.delivered("0", 0, 1)
    found.delivered("1", 0, 2)  # fails, and must come again before 2
    found.delivered("2", 0, 3)
    found.delivered("1", 1, 4)
    assert words(found) == ["ORDER"]
