"""Progress and metrics of whatever Spark runs meanwhile: a bar on a terminal, lines elsewhere. Jobs know nothing of it.

Streams report rows, rate and lag after each micro-batch, other work its tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from typing import Any, Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming import listener as events

from ...ambient import Clock, SystemClock
from ...spark.read.offsets import from_json, waiting
from ..report.summary import Summary

_LINE_S, _BAR_S, _EVENTS_S, _BAR_WIDTH = 5.0, 0.5, 10.0, 30


def lag(end: str | None, latest: str | None) -> int | None:
    """Return how many messages come after `end`; None where a source does not say."""
    if not end or not latest:
        return None
    return waiting(from_json(json.loads(end)), from_json(json.loads(latest)))


def batch_line(name: str, batch: int, rows: int, per_second: float, behind: int | None) -> str:
    left = "" if behind is None else f", lag {behind:,}"
    return f"{name}: batch {batch}, {rows:,} rows, {per_second:,.0f} rows/s{left}"


def task_line(name: str, done: int, total: int, *, bar: bool) -> str:
    if not bar:
        return f"{name}: {done:,} of {total:,} tasks"
    filled = _BAR_WIDTH * done // max(1, total)
    return f"{name} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done:,}/{total:,} tasks"


@dataclass(eq=False, repr=False)
class ProgressListener(events.StreamingQueryListener):
    """Use it as `with ProgressListener(...)` around a job. `bar` redraws one line, otherwise each report is a new one.

    `each` gets the metrics of a stream after each micro-batch: one that never ends could not give them at its end.
    """

    session: SparkSession
    name: str
    write: Callable[[str], None]
    bar: bool = field(default=False, kw_only=True)
    each: Callable[[dict[str, Any]], None] | None = field(default=None, kw_only=True)
    clock: Clock = field(default_factory=SystemClock, kw_only=True)
    batches: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)
    lag: int | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._over = Event()
        self._thread = Thread(target=self._poll, daemon=True)
        self._begun = self.clock.monotonic()
        self._shown = ""
        self._open: set[str] = set()
        self._gone = False  # the JVM, and with it all events
        self._event = Condition()

    def __enter__(self) -> Self:
        self._begun = self.clock.monotonic()
        self.session.streams.addListener(self)
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self.seconds = self.clock.monotonic() - self._begun
        with self._event:  # events come a little after a query's end
            self._event.wait_for(lambda: not self._open or self._gone, _EVENTS_S)
        self._over.set()
        self._thread.join()
        with suppress(Py4JError, OSError):  # whoever waits for an answer of the JVM tells that it is gone
            self.session.streams.removeListener(self)
        if self.bar and self._shown:
            self.write("\r" + " " * len(self._shown) + "\r")

    def metrics(self, summary: Summary) -> dict[str, Any]:
        took, done = max(self.seconds, 0.001), summary.metrics
        metrics = self._metrics(summary.pipeline, done.rows, took)
        return metrics | {"bytes": done.bytes, "bytesPerSecond": round(done.bytes / took, 1)}

    def _metrics(self, name: str, rows: int, took: float) -> dict[str, Any]:
        return {
            "pipeline": name,
            "rows": rows,
            "seconds": round(took, 3),
            "rowsPerSecond": round(rows / took, 1),
            "batches": self.batches,
            "lag": self.lag,
        }

    def onQueryProgress(self, event: events.QueryProgressEvent) -> None:  # noqa: N802 - Spark's names, here and below
        progress = event.progress
        self.batches += 1
        self.rows += progress.numInputRows
        for source in progress.sources:
            self.lag = lag(source.endOffset, source.latestOffset)
        self._show(
            batch_line(self.name, progress.batchId, progress.numInputRows, progress.processedRowsPerSecond, self.lag)
        )
        if self.each is not None:
            took = max(self.clock.monotonic() - self._begun, 0.001)
            self.each(self._metrics(self.name, self.rows, took))

    def onQueryStarted(self, event: events.QueryStartedEvent) -> None:  # noqa: N802
        self._open.add(str(event.runId))

    def onQueryTerminated(self, event: events.QueryTerminatedEvent) -> None:  # noqa: N802
        with self._event:
            self._open.discard(str(event.runId))
            self._event.notify_all()

    def _poll(self) -> None:
        try:
            tracker = self.session.sparkContext.statusTracker()
            while not self._over.wait(_BAR_S if self.bar else _LINE_S):
                stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each))]
                if total := sum(stage.numTasks for stage in stages):
                    done = sum(stage.numCompletedTasks for stage in stages)
                    self._show(task_line(self.name, done, total, bar=self.bar))
        except (Py4JError, OSError):
            with self._event:
                self._gone = True
                self._event.notify_all()

    def _show(self, line: str) -> None:
        if self.bar:
            self.write("\r" + line.ljust(len(self._shown)))
            self._shown = line
        else:
            self.write(line + "\n")
