"""What is told of progress: lines, a bar, lag. The parts that need no Spark."""

from __future__ import annotations

import json
from threading import Event
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from pyromq.pipelines.report.summary import Metrics, Summary
from pyromq.pipelines.run.progress import ProgressListener, batch_line, lag, task_line


def test_lag_is_what_waits_behind_the_batch() -> None:
    end = json.dumps({"T": {"a": {"0": 10, "1": 5}}})
    latest = json.dumps({"T": {"a": {"0": 12, "1": 5, "2": 3}}})
    assert lag(end, latest) == 5
    assert lag(end, None) is None


def test_lines() -> None:
    assert batch_line("archive", 3, 40_000, 1234.5, 60) == "archive: batch 3, 40,000 rows, 1,234 rows/s, lag 60"
    assert task_line("search", 5, 10, bar=False) == "search: 5 of 10 tasks"
    assert task_line("search", 5, 10, bar=True).count("#") == 15


def spark() -> Any:
    """As much of a session as a watch asks for."""
    tracker = SimpleNamespace(getActiveStageIds=list)
    streams = SimpleNamespace(addListener=lambda listener: None, removeListener=lambda listener: None)
    return SimpleNamespace(streams=streams, sparkContext=SimpleNamespace(statusTracker=lambda: tracker))


def progress(batch: int, rows: int, end: int, latest: int) -> Any:
    offsets = [json.dumps({"T": {"a": {"0": each}}}) for each in (end, latest)]
    source = SimpleNamespace(endOffset=offsets[0], latestOffset=offsets[1])
    told = SimpleNamespace(batchId=batch, numInputRows=rows, processedRowsPerSecond=100.0, sources=[source])
    return SimpleNamespace(progress=told)


def test_a_bar_is_one_line_that_is_drawn_again_and_wiped_at_the_end() -> None:
    told: list[str] = []
    with ProgressListener(spark(), "replay", told.append, bar=True) as watch:
        watch.onQueryProgress(progress(0, 40_000, 40, 100))
        watch.onQueryProgress(progress(1, 60, 100, 100))
    first, second, wiped = told
    assert first == "\rreplay: batch 0, 40,000 rows, 100 rows/s, lag 60"
    assert second == "\rreplay: batch 1, 60 rows, 100 rows/s, lag 0".ljust(len(first))
    assert wiped.strip() == ""
    assert len(wiped) == len(second.rstrip()) + 1


def test_metrics_are_told_after_each_batch_and_at_the_end() -> None:
    told: list[dict[str, Any]] = []
    with ProgressListener(spark(), "replay", lambda line: None, each=told.append) as watch:
        watch.onQueryProgress(progress(0, 40, 40, 100))
        watch.onQueryProgress(progress(1, 60, 100, 100))
    assert [(each["pipeline"], each["rows"], each["batches"], each["lag"]) for each in told] == [
        ("replay", 40, 1, 60),
        ("replay", 100, 2, 0),
    ]
    whole = watch.metrics(Summary("replay", {}, metrics=Metrics(90, 9000)))
    assert (whole["rows"], whole["bytes"], whole["batches"], whole["lag"]) == (90, 9000, 2, 0)
    assert whole["rowsPerSecond"] > 0


def test_a_jvm_that_is_gone_is_the_end_and_no_error() -> None:
    """Whoever waits for its answer tells it."""

    def gone(*given: Any) -> Any:
        asked.set()
        raise Py4JNetworkError("Answer from Java side is empty")

    asked, session = Event(), spark()
    session.streams.removeListener = gone
    session.sparkContext.statusTracker = lambda: SimpleNamespace(getActiveStageIds=gone)
    with ProgressListener(session, "replay", lambda line: None, bar=True) as watch:
        watch.onQueryStarted(SimpleNamespace(runId="1"))  # type: ignore[arg-type]
        assert asked.wait(60)
    assert watch.seconds > 0
