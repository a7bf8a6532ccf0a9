"""What every `pyromq pipeline` shares while it runs: a session, progress, and the ways to show a summary.

A command is decorated with `job`; it gets a `Job` and calls `job.run` with what is to be done in a session, or
`job.run_or_plan` where --dry-run only shows what would be read.
"""

from __future__ import annotations

import json
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
from ...pipelines.run.streaming import Stop, Stopped
from ...pipelines.run.times import Times, moment, span_s
from ...spark.options import Use
from ...spark.session import check_machine, new_session
from ..terminal.exits import NO
from ..terminal.options import together
from ..terminal.printing import columns, print_drawn, print_lines
from .checks import check_file, check_folder, check_source, check_target
from .faults import JobFailed, is_debugging, plain_faults, quieten
from .options import SEVERAL, SHARED
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
        """Return --since and --until, as of now. ConfigError if nothing can be in between."""
        now_ms = SystemClock().now_ms()
        since_ms = moment("since", self.since, now_ms) if self.since else None
        until_ms = moment("until", self.until, now_ms) if self.until else None
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            raise ConfigError(f"since = {self.since!r}, until = {self.until!r}: the end is not after the beginning")
        return {"since_ms": since_ms, "until_ms": until_ms}

    def run(
        self,
        name: str,
        work: Work,
        *reads: Mapping[str, str],
        use: Use = Use.BATCH,
        to: Mapping[str, str] | None = None,
        is_made: bool = False,
        folder: str = "",
        repeats: bool = False,
        goes_on: bool = False,
    ) -> None:
        """Run the work once; with `repeats` again after each --every: for reports, which have no end of their own.

        `reads` are the sources and how they are used, `to` is the topic that is written (`is_made` by the command
        itself), `folder` the one that is: all are checked before Spark is started. `goes_on` says that a second start
        goes on where a stopped one was.
        """
        every_s = span_s("every", self.every) if self.every else 0.0
        wait = every_s if repeats else 0.0  # a stream waits by itself
        for path in (self.report, self.metrics):
            if path is not None:
                check_file(path)
        if folder:
            check_folder(folder)
        for source in reads:
            check_source(source, use)
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
        repeats: bool = False,
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

        self.run(name, plan if self.dry_run else work, *reads, repeats=repeats and not self.dry_run)

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
    with plain_faults():
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
