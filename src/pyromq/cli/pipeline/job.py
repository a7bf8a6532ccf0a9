"""What every `pyromq pipeline` shares while it runs: a session, progress, and the ways to show a summary.

A command is decorated with `job`; it gets a `Job` and calls `job.run` with what is to be done in a session, or
`job.run_or_plan` where --dry-run only shows what would be read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...ambient import SystemClock
from ...errors import ConfigError
from ...files import replace_file
from ...model.names import topic_fault
from ...pipelines.run.streaming import Stop, Stopped
from ...pipelines.run.times import Times
from ...spark.session import check_machine, new_session
from ..terminal.exits import NO
from ..terminal.options import together
from ..terminal.printing import columns, print_drawn, print_lines
from .faults import JobFailed, is_debugging, plain_faults, quieten
from .options import SEVERAL, SHARED, reach_of
from .stop import run_stoppable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.report.summary import Summary

    Work = Callable[[SparkSession], Summary]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of one call that several commands share."""

    master: str
    memory: str
    conf: Mapping[str, str]
    as_json: bool
    metrics: Path | None
    report: Path | None
    progress: str
    since: str = ""
    until: str = ""
    where: str = ""
    most: int = 0
    checkpoint: str = ""
    every: str = ""
    dry_run: bool = False

    def times(self) -> Times:
        """Return --since and --until, as of now."""
        from ...pipelines.run.times import moment

        now_ms = SystemClock().now_ms()
        return {
            "since_ms": moment("since", self.since, now_ms) if self.since else None,
            "until_ms": moment("until", self.until, now_ms) if self.until else None,
        }

    def run(
        self,
        name: str,
        work: Work,
        *reads: Mapping[str, str],
        to: Mapping[str, str] | None = None,
        is_made: bool = False,
        every: str = "",
        goes_on: bool = False,
    ) -> None:
        """Run the work once, or again and again: for reports, which have no end of their own.

        `reads` are the sources and `to` the topic that is written (`is_made` by the command itself), checked before
        Spark is started; `goes_on` says that a second start goes on where a stopped one was.
        """
        from ...pipelines.run.times import span_s

        wait = span_s("every", every or self.every) if every or self.every else 0.0
        wait = wait if every else 0.0  # a stream waits by itself
        for path in (self.report, self.metrics):
            if path is not None:
                check_file(path)
        for source in reads:
            check_source(source)
        if to is not None:
            check_target(to, is_made=is_made)
        sessions: list[SparkSession] = []

        def session(stop: Stop) -> None:
            with spark_for(name, self.master, self.memory, self.conf) as spark:
                sessions.append(spark)
                with _stops_as_stopped(stop), plain_faults():
                    self._once(spark, name, work)
                    while wait and not stop.wait(wait):
                        self._once(spark, name, work)

        def cancel() -> None:
            from py4j.protocol import Py4JError  # type: ignore[import-untyped]

            for spark in sessions:
                with suppress(Py4JError, OSError):
                    spark.sparkContext.cancelAllJobs()

        try:
            run_stoppable(session, cancel)
        except Stopped:
            if not wait:
                again = "; start it again, it goes on where it was" if goes_on else ""
                raise JobFailed(f"{name}: stopped before its end{again}", NO) from None
            print_lines(f"{name}: stopped", err=True)

    def run_or_plan(
        self,
        name: str,
        work: Work,
        *reads: Mapping[str, str],
        built: Callable[[SparkSession], object] | None = None,
        every: str = "",
    ) -> None:
        """Run the work; with --dry-run only show what it would read of its first source.

        `built` makes what the work begins with, which Spark refuses there as in the run; it reads nothing.
        """
        from ...pipelines.run.messages import messages
        from ...pipelines.run.plan import plan_of

        def plan(spark: SparkSession) -> Summary:
            times = self.times()
            built(spark) if built else messages(spark, reads[0], **times)
            return plan_of(spark, reads[0], name, **times)

        self.run(name, plan if self.dry_run else work, *reads, every="" if self.dry_run else every)

    def _once(self, spark: SparkSession, name: str, work: Work) -> None:
        from ...pipelines.run.progress import ProgressListener

        bar = self.progress == "bar" or (self.progress == "auto" and sys.stderr.isatty())

        def progress(text: str) -> None:
            if self.progress != "off":
                print_drawn(text, err=True)

        with ProgressListener(spark, name, progress, bar=bar, each=self._measured) as watch:
            summary = work(spark)
        found = watch.metrics(summary)
        count, rate = (f"{found[name]:,}" for name in ("rows", "rowsPerSecond"))
        print_lines(f"{name}: {count} rows, {found['bytes']:,} bytes in {found['seconds']} s, {rate} rows/s", err=True)
        print_lines(*[summary.as_json()] if self.as_json else summary.lines(columns()))
        self._measured(found)
        if self.report is not None:
            from ...pipelines.report.html_page import page

            made = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            replace_file(self.report, page(summary, made).encode(), keep_backup=False)

    def _measured(self, metrics: dict[str, Any]) -> None:
        """Replace the file of figures as a whole: others read it while a stream goes on."""
        if self.metrics is not None:
            replace_file(self.metrics, json.dumps(metrics).encode() + b"\n", keep_backup=False)


def job(*several: str) -> Callable[[F], F]:
    """Add these of the options that several commands have, then those of all; they arrive as `job`."""

    def decorate(command: F) -> F:
        @wraps(command)
        def call(**given: Any) -> Any:
            check_machine()  # pipelines import Spark
            shared = {each.name: given.pop(each.name) for each in fields(Job) if each.name in given}
            return command(job=Job(**shared), **given)

        return together(*map(SEVERAL.__getitem__, several), *SHARED)(call)  # type: ignore[return-value]

    return decorate


@contextmanager
def spark_for(name: str, master: str, memory: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a Spark session. Progress goes to stderr: a first answer takes Spark about ten seconds."""
    check_machine()
    from py4j.protocol import Py4JError

    print_lines(f"{name}: starting Spark on {master or 'this machine'}", err=True)
    session = new_session(name, master=master, memory=memory, settings=conf, apart=True)
    if not is_debugging():
        quieten()
        session.sparkContext.setLogLevel("OFF")
    print_lines(f"{name}: running", err=True)
    try:
        yield session
    finally:
        with suppress(Py4JError, OSError):  # its process may be gone
            session.stop()


@contextmanager
def _stops_as_stopped(stop: Stop) -> Iterator[None]:
    """Raise Stopped for whatever ends a job that was asked to end: a cancelled job, or Spark's process that is gone."""
    try:
        yield
    except JobFailed:
        if not stop.asked.is_set():
            raise
        raise Stopped("stopped") from None
    if stop.asked.is_set() and not stop.ends_itself:
        raise Stopped("stopped")


def check_source(source: Mapping[str, str]) -> None:
    """Raise for topics and stores that do not exist, before Spark is started. Patterns are left to the read."""
    from ...spark.connect.cluster import Cluster
    from ...spark.store.store_scan import plan

    for store in source.get("store", "").split(","):
        if store.strip():
            plan(store.strip(), 1)
    topics = [each.strip() for each in source.get("topic", "").split(",") if each.strip()]
    if topics and source.get("nameServer") and "archive" not in source:
        with Cluster(reach_of(source)) as cluster:
            cluster.queues(topics)


def check_target(goal: Mapping[str, str], *, is_made: bool = False) -> None:
    """Raise for a topic that cannot be sent to, before Spark is started. `is_made`: it need not be there yet."""
    from ...client.errors import TopicNotFound
    from ...spark.connect.cluster import Cluster

    if (fault := topic_fault(goal["topic"])) is not None:
        raise ConfigError(fault)
    with Cluster(reach_of(goal)) as cluster, suppress(*[TopicNotFound] * is_made):
        cluster.route_to_write(goal["topic"], make=False)


def check_file(path: Path) -> None:
    """Raise ConfigError for a file that cannot be written, before hours of work are."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"{path}: {path.parent} may not be written")
