"""How a stream ends when it is asked to: between its batches if it can. Without Spark."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest

from pyromq.pipelines.run import streaming
from pyromq.pipelines.run.streaming import Stop, Stopped, run_stream


class Query:
    """As much of a sink and its query as a run asks for: each wait is a batch, `last` of them are all there are."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.calls: list[str] = []
        self.number = 0

    def foreachBatch(self, work: Any) -> Query:  # noqa: N802 - Spark's name, as below
        self.work = work
        return self

    def option(self, name: str, value: str) -> Query:
        self.calls.append(f"{name}={value}")
        return self

    def trigger(self, **how: Any) -> Query:
        self.calls += [f"{name} {value}" for name, value in how.items()]
        return self

    def start(self) -> Query:
        return self

    def awaitTermination(self, seconds: int) -> bool:  # noqa: N802
        self.work(None, self.number)
        self.number += 1
        return self.number == self.last

    def stop(self) -> None:
        self.calls.append("stop")


def run(query: Query, keep: Any, every: str = "", stop: Stop | None = None) -> None:
    def within() -> None:
        if stop is not None:
            streaming.use(stop)
        run_stream(query, keep, "/run", every)  # type: ignore[arg-type]

    copy_context().run(within)


def test_a_stream_comes_to_its_end() -> None:
    query, kept = Query(3), []
    run(query, lambda batch, number: kept.append(number))
    assert kept == [0, 1, 2]
    assert query.calls == ["checkpointLocation=/run/checkpoint", "availableNow True"]


@pytest.mark.parametrize("every", ["", "2s"])
def test_a_stream_that_is_asked_to_end_begins_no_other_batch(every: str) -> None:
    query, kept, stop = Query(3), [], Stop()

    def keep(batch: Any, number: int) -> None:
        kept.append(number)
        stop.asked.set()

    if every:  # an end like any other
        run(query, keep, every, stop)
    else:
        with pytest.raises(Stopped):
            run(query, keep, every, stop)
    assert (kept, query.calls[-1], stop.ends_itself) == ([0], "stop", True)
    with pytest.raises(Stopped):  # should Spark begin one meanwhile
        query.work(None, 1)
    assert kept == [0]


def test_a_batch_that_is_broken_off_says_so_in_few_words() -> None:
    query, stop = Query(3), Stop()

    def keep(batch: Any, number: int) -> None:
        stop.asked.set()
        raise ValueError("x" * 10_000)

    with pytest.raises(Stopped) as found:
        run(query, keep, "", stop)
    assert len(str(found.value)) < 100
    assert found.value.__suppress_context__


def test_an_error_of_a_batch_is_the_streams() -> None:
    def keep(batch: Any, number: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(Query(1), keep)


def test_what_is_stopped_before_it_begins_is_not_begun() -> None:
    query, stop = Query(1), Stop()
    stop.asked.set()
    with pytest.raises(Stopped):
        run(query, lambda batch, number: None, "2s", stop)
    assert query.calls == []
