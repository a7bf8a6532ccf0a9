"""Several pulls under way on one queue: all offsets once and in order, whatever a broker gives in any order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.ambient import SystemClock
from pyromq.errors import ConnectionLost
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.record import Record, encode_record
from pyromq.spark.connect.connection import POOL, ReceiveBuffer
from pyromq.spark.options import Use, read_options
from pyromq.spark.read.offsets import OffsetRange, Queue
from pyromq.spark.read.pull_window import PullWindow
from pyromq.spark.read.pulling import QueuePull, read_range
from pyromq.spark.schema import arrow_schema

QUEUE = Queue("orders", "broker-a", 0)
OPTIONS = read_options({"nameServer": "127.0.0.1:1", "topic": "orders", "arrowBatchRows": "64"}, Use.BATCH)


class SmallBroker:
    """Gives at most `limit` messages a pull, answers in any order, and now and then fewer, none, or not at all."""

    def __init__(self, stored: list[int], seed: int, *, limit: int = 32, fault: float = 0.0) -> None:
        self.address = "127.0.0.1:1"
        self.most_under_way = 0
        self.asked: list[tuple[int, int]] = []
        self._stored = stored
        self._rng = random.Random(seed)
        self._limit = limit
        self._fault = fault
        self._waiting: list[tuple[int, int, int]] = []

    @property
    def outstanding(self) -> int:
        return len(self._waiting)

    def send(self, command: Command, body: bytes = b"") -> int:
        begin, most = int(command.fields["queueOffset"]), int(command.fields["maxMsgNums"])
        self.asked.append((begin, most))
        self._waiting.append((len(self.asked), begin, most))
        self.most_under_way = max(self.most_under_way, len(self._waiting))
        return len(self.asked)

    def send_together(self, commands: list[Command]) -> list[int]:
        return [self.send(command) for command in commands]

    def receive(self, buffer: ReceiveBuffer | None = None) -> Command:
        number, begin, most = self._waiting.pop(self._rng.randrange(len(self._waiting)))
        if self._rng.random() < self._fault:
            if self._rng.random() < 0.5:
                raise ConnectionLost("gone")
            return Command(code=ResponseCode.SYSTEM_BUSY, flag=1, opaque=number)
        limit = self._limit if self._rng.random() >= self._fault else self._rng.randint(1, self._limit)
        there = [at for at in self._stored if at >= begin][: min(most, limit)]
        records = [encode_record(Record(topic="orders", queue_id=0, body=b"x", queue_offset=at)) for at in there]
        fields = {"nextBeginOffset": str(there[-1] + 1), "minOffset": "0", "maxOffset": str(self._stored[-1] + 1)}
        body = b"".join(records)
        answer = Command(code=ResponseCode.SUCCESS, flag=1, opaque=number, fields=fields, body=body)
        if buffer is not None:
            view = buffer.reserve(len(body))
            view[:] = body
            buffer.used += len(body)
            answer.body = view
        return answer

    def is_fresh(self) -> bool:
        return not self._waiting

    def close(self) -> None:
        self._waiting.clear()


def read(broker: SmallBroker, end: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(QueuePull, "_connection", lambda self: broker)
    monkeypatch.setattr(QueuePull, "_find_broker", lambda self: None)
    monkeypatch.setattr(QueuePull, "_wait", lambda self, deadline, why: None)
    batches = read_range(
        OffsetRange(QUEUE, 0, end), broker.address, OPTIONS, arrow_schema(["queueOffset"]), SystemClock()
    )
    found = [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()]
    POOL.close()
    return found


def test_a_broker_that_gives_little_has_many_pulls_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SmallBroker(list(range(3_000)), seed=1)
    assert read(broker, 3_000, monkeypatch) == list(range(3_000))
    assert broker.most_under_way == 16
    assert [begin for begin, _ in broker.asked] == list(range(0, 3_000, 32))  # each offset is asked for once
    assert {most for _, most in broker.asked[3:-1]} == {32}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 30), st.sampled_from([0.0, 0.1, 0.4]), st.integers(1, 40))
def test_gaps_short_answers_and_lost_connections_leave_nothing_out(seed: int, fault: float, limit: int) -> None:
    rng = random.Random(seed)
    stored = [at for at in range(600) if rng.random() < 0.97 or at % 100 < 50 or at == 599]
    with pytest.MonkeyPatch.context() as patch:
        assert read(SmallBroker(stored, seed, limit=limit, fault=fault), 600, patch) == stored


def test_large_answers_are_asked_for_one_at_a_time() -> None:
    window = PullWindow(0, 100, batch=10)
    for number in range(8):
        (pull,) = window.next_pulls()
        window.sent([number], [pull])
        assert window.next_pulls() == []
        window.answered(pull.end, 1 << 20)


def ask(window: PullWindow, number: int) -> int:
    pulls = window.next_pulls()
    window.sent(range(number + 1, number + 1 + len(pulls)), pulls)
    return number + len(pulls)


def test_what_is_stale_counts_until_it_came() -> None:
    window, number = PullWindow(0, 1_000, batch=100), 0
    while window.depth < 8:
        number = ask(window, number)
        window.answered(window.offset + 10, 100)
    number = ask(window, number)
    awaited, begun = window.awaited, window.offset
    assert awaited is not None
    window.answered(begun + 3, 100)  # fewer than expected
    assert (window.depth, window.awaited) == (1, None)
    assert window.next_pulls() == [(begun + 3, 100)]
    ask(window, number)
    assert awaited < number
    assert not any(window.is_wanted_later(each) for each in range(awaited + 1, number + 1))
    assert window.awaited == number + 1
