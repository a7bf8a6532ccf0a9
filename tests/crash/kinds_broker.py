"""The broker under the checker of message kinds, in a process of its own, with a fault on purpose if one is wanted.

    python -m tests.crash.kinds_broker FAULTS -c broker.conf        none, or some of FAULTS with commas between them

The faults live here alone: none of them can be switched on in the product.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from pyromq.broker.intake.intake import Done, Intake, Outcome
from pyromq.broker.retries.send_back import SendBack
from pyromq.broker.send.verdicts import Verdicts
from pyromq.broker.timing.level_queues import LevelQueues
from pyromq.broker.transactions.end import TransactionEnds
from pyromq.cli.main import main
from pyromq.protocol.record import Record
from pyromq.transport.dispatch import Reply

KINDS_TOPIC = "kinds"
LANES_TOPIC = "lanes"
EVERY = 5


def every(count: int) -> Callable[[], bool]:
    calls = 0

    def due() -> bool:
        nonlocal calls
        calls += 1
        return calls % count == 0

    return due


def lost_send() -> None:
    """Some plain sends are answered and not stored."""
    put, now = Intake.put, every(2)
    last: list[Outcome] = []

    def lossy(self: Intake, record: Record, done: Done, wait_s: float = 0.0) -> None:
        if record.body.startswith(b"plain") and last and now():
            done(last[0])
            return

        def remember(outcome: Outcome) -> None:
            last[:] = [outcome]
            done(outcome)

        put(self, record, remember, wait_s)

    Intake.put = lossy  # type: ignore[method-assign]


def dropped_retry() -> None:
    """A message that is given back is answered for and forgotten."""

    def forget(self: SendBack, request: Any, record: Record, config: Any) -> None:
        request.peer.send(Reply().to_command(request.command))

    SendBack._put = forget  # type: ignore[method-assign]


def early_delivery() -> None:
    """Delays end 800 ms too soon."""
    due = LevelQueues._due_ms
    LevelQueues._due_ms = lambda self, level, one, now_ms: due(self, level, one, now_ms) - 800  # type: ignore[method-assign]


def lost_commit() -> None:
    """A committed transaction is noted as ended, and its message is not stored."""

    def forget(self: Any, request: Any, half: Record) -> None:
        self._roll_back(request, half.queue_offset)

    TransactionEnds._commit = forget  # type: ignore[method-assign]


def rollback_commits() -> None:
    """A rollback does what a commit does."""
    end = TransactionEnds.__call__

    def confused(self: TransactionEnds, request: Any) -> Any:
        request.command.fields["commitOrRollback"] = "8"
        return end(self, request)

    TransactionEnds.__call__ = confused  # type: ignore[method-assign]


def stored_twice() -> None:
    """Some sends are stored twice."""
    put, now = Intake.put, every(EVERY)

    def doubled(self: Intake, record: Record, done: Done, wait_s: float = 0.0) -> None:
        put(self, record, done, wait_s)
        if record.topic == KINDS_TOPIC and now():
            put(self, msgspec.structs.replace(record), lambda outcome: None)

    Intake.put = doubled  # type: ignore[method-assign]


def out_of_order() -> None:
    """Some messages of a lane are answered at once, and stored behind the next one."""
    put, now = Intake.put, every(EVERY)
    last: list[Outcome] = []
    held: list[Record] = []

    def swapped(self: Intake, record: Record, done: Done, wait_s: float = 0.0) -> None:
        if record.topic == LANES_TOPIC and last and not held and now():
            held.append(record)
            done(last[0])
            return

        def remember(outcome: Outcome) -> None:
            last[:] = [outcome]
            done(outcome)

        put(self, record, remember, wait_s)
        if record.topic == LANES_TOPIC and held and held[0].queue_id == record.queue_id:
            put(self, held.pop(), lambda outcome: None)

    Intake.put = swapped  # type: ignore[method-assign]


# Each with the beginning of what the checker must say of it.
FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "lost_send": (lost_send, "LOST: plain"),
    "dropped_retry": (dropped_retry, "LOST: retried"),
    "early_delivery": (early_delivery, "EARLY: delayed"),
    "lost_commit": (lost_commit, "LOST: committed"),
    "rollback_commits": (rollback_commits, "UNWANTED: rolled-back"),
    "stored_twice": (stored_twice, "TWICE: "),
    "out_of_order": (out_of_order, "ORDER: "),
}


if __name__ == "__main__":
    for fault in sys.argv.pop(1).split(","):
        if fault != "none":
            Verdicts.judge = lambda self, topic: None  # type: ignore[method-assign]  # every send meets the faults
            FAULTS[fault][0]()
    sys.argv = ["pyromq", "broker", *sys.argv[1:]]
    main()
