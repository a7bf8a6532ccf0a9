"""Questions to a cluster that does not answer at once: fetchOffset.numRetries and fetchOffset.retryIntervalMs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyromq.client.errors import Error, NoNameServer, TopicNotFound
from pyromq.spark.options import Use, read_options
from pyromq.spark.read import starting
from pyromq.spark.read.offsets import Bounds, Queue

QUEUE = Queue("orders", "broker-a", 0)


class Answers:
    """A cluster that fails so often."""

    def __init__(self, faults: list[Error]) -> None:
        self.faults = faults

    def queues(self, topics: Iterable[str]) -> dict[Queue, str]:
        if self.faults:
            raise self.faults.pop(0)
        return {QUEUE: "127.0.0.1:1"}

    def bounds(self, queues: Iterable[Queue]) -> dict[Queue, Bounds]:
        return {queue: Bounds(0, 5) for queue in queues}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(starting, "pause", found.append)
    return found


def asked(faults: list[Error], **options: str) -> object:
    given = {"nameServer": "127.0.0.1:1", "topic": "orders"} | options
    return starting.with_retries(Answers(faults), read_options(given, Use.BATCH))  # type: ignore[arg-type]


def test_it_is_asked_again_a_few_times(waits: list[float]) -> None:
    away: list[Error] = [NoNameServer("nobody"), NoNameServer("nobody")]
    assert asked(away, **{"fetchOffset.retryIntervalMs": "70"}) == ({QUEUE: "127.0.0.1:1"}, {QUEUE: Bounds(0, 5)})
    assert waits == [0.07, 0.07]


def test_and_no_more_than_that(waits: list[float]) -> None:
    with pytest.raises(NoNameServer):
        asked([NoNameServer("nobody") for _ in range(9)], **{"fetchOffset.numRetries": "1"})
    assert waits == [1.0]


def test_a_topic_that_does_not_exist_is_told_at_once(waits: list[float]) -> None:
    with pytest.raises(TopicNotFound):
        asked([TopicNotFound("no such topic")])
    assert waits == []
