"""What every `pyromq pipeline` shares: options, a session, progress, and the ways to show a summary.

A command is decorated with `job`, and with `reading` if it reads messages; it gets a `Job` and a source, and calls
`job.run` with what is to be done in a session.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...ambient import SystemClock
from ...files import replace_file
from ...pipelines.run.stopping import Stop, Stopped
from ...spark.options import NetOptions, Use, connection_options, declared
from ...spark.session import check_machine, new_session
from ..terminal.exits import NO
from ..terminal.printing import print_drawn, print_lines, print_text
from ..terminal.profiles import chosen_reach
from .faults import JobFailed, is_debugging, plain_faults, quieten
from .stop import run_stoppable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.report.summary import Summary

F = TypeVar("F", bound=Callable[..., Any])
SHARED = (
    click.option("--master", default="", help="Spark cluster, such as spark://host:7077.  [default: this machine]"),
    click.option("--memory", default="2g", show_default=True, help="Of the driver."),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting; may be given again."),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of tables."),
    click.option("--metrics", type=click.Path(path_type=Path), help="Write rows, bytes, seconds and rates as JSON."),
    click.option("--report", type=click.Path(path_type=Path), help="Write an HTML page with plots."),
    click.option("--progress", type=click.Choice(["auto", "bar", "lines", "off"]), default="auto", show_default=True),
)
_PROFILE = "pyromq.profile"


def _keep_profile(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[_PROFILE] = value


def _name_servers(context: click.Context, option: click.Parameter, value: str | None) -> str:
    from ...client.connect.tls_choice import TlsChoice

    return chosen_reach(value, context.meta.get(_PROFILE), TlsChoice()).namesrv or "127.0.0.1:9876"


def name_server(command: F) -> F:
    """Add `-n` and `--profile`; they arrive as namesrv, never empty."""
    profile = click.option(
        "--profile",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_keep_profile,
        help="Name servers by the name of a profile.  [PYROMQ_PROFILE]",
    )
    address = click.option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT",
        callback=_name_servers,
        help="Name servers.  [default: PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876]",
    )
    return address(profile(command))


OPTION = click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the data source; may be given again.",
)
READ = (
    name_server,
    click.option("--topic", default="", help="Topics, with commas between them."),
    click.option("--topic-pattern", default="", help="Topics whose whole name this expression fits."),
    click.option("--archive", default="", help="Folder of an archive to read instead of brokers."),
    click.option("--store", default="", help="Store folders to read instead of brokers, with commas between them."),
    OPTION,
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only tell what there is to do.")
SINCE = click.option("--since", default="", help="Stored then or later: 2026-11-15, 'yesterday 00:00', '2h ago' (UTC).")
UNTIL = click.option("--until", default="", help="Stored before this time.")
EVERY = click.option(
    "--every", default="", metavar="TIME", help="Go on until stopped, such as '10 seconds'.  [default: once]"
)
WHERE = click.option("--where", default="", help="Spark SQL on the columns of a read, such as \"tags = 'paid'\".")
CHECKPOINT = click.option("--checkpoint", default="", help="Folder that remembers how far it came, for a restart.")


def options(*given: Callable[[F], F]) -> Callable[[F], F]:
    """Return several click options as one decorator, shown in this order."""

    def decorate(command: F) -> F:
        for each in reversed(given):
            command = each(command)
        return command

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The shared options of one call."""

    master: str
    memory: str
    conf: tuple[str, ...]
    as_json: bool
    metrics: Path | None
    report: Path | None
    progress: str

    def run(
        self,
        name: str,
        work: Callable[[SparkSession], Summary],
        *,
        every: str = "",
        reads: Sequence[Mapping[str, str]] = (),
        goes_on: bool = False,
    ) -> None:
        """Run it once, or again and again: for reports, which have no end of their own. `reads` are the sources,
        checked before Spark is started; `goes_on` says that a second start goes on where a stopped one was."""
        from ...pipelines.run.times import span_s

        wait = span_s("every", every) if every else 0.0
        pairs("--conf", self.conf)
        for source in reads:
            check_source(source)
        sessions: list[SparkSession] = []

        def session(stop: Stop) -> None:
            with spark_for(name, self.master, self.memory, self.conf) as spark:
                sessions.append(spark)
                with _stops_as_stopped(stop), plain_faults():
                    self._once(spark, name, work)
                    while wait and not stop.wait(wait):
                        self._once(spark, name, work)

        try:
            run_stoppable(session, lambda: _cancel_jobs(sessions))
        except Stopped:
            if not wait:
                again = "; start it again, it goes on where it was" if goes_on else ""
                raise JobFailed(f"{name}: stopped before its end{again}", NO) from None
            print_lines(f"{name}: stopped", err=True)

    def plan(self, name: str, source: Mapping[str, str], **times: int | None) -> None:
        """Show what the job would read of `source`, and run nothing (--dry-run)."""
        from ...pipelines.run.plan import plan_of

        self.run(name, lambda spark: plan_of(spark, source, name, **times), reads=[source])

    def _once(self, spark: SparkSession, name: str, work: Callable[[SparkSession], Summary]) -> None:
        from ...pipelines.run.progress import ProgressListener

        bar = self.progress == "bar" or (self.progress == "auto" and sys.stderr.isatty())
        progress = _quiet if self.progress == "off" else _print_progress
        with ProgressListener(spark, name, progress, bar=bar, each=self._measured) as watch:
            summary = work(spark)
        found = watch.metrics(summary)
        count, rate = (f"{found[name]:,}" for name in ("rows", "rowsPerSecond"))
        print_lines(f"{name}: {count} rows, {found['bytes']:,} bytes in {found['seconds']} s, {rate} rows/s", err=True)
        show(summary, self.as_json)
        self._measured(found)
        if self.report is not None:
            from ...pipelines.report.html_page import page

            made = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            replace_file(self.report, page(summary, made).encode(), keep_backup=False)

    def _measured(self, metrics: dict[str, Any]) -> None:
        """Replace the file of figures as a whole: others read it while a stream goes on."""
        if self.metrics is not None:
            replace_file(self.metrics, json.dumps(metrics).encode() + b"\n", keep_backup=False)


def job(command: F) -> F:
    """Add the shared options; they arrive as `job`."""

    @wraps(command)
    def call(**given: Any) -> Any:
        names = ("master", "memory", "conf", "as_json", "metrics", "report", "progress")
        return command(job=Job(**{name: given.pop(name) for name in names}), **given)

    return options(*SHARED)(call)  # type: ignore[return-value]


def reading(command: F) -> F:
    """Add the options that say what to read; they arrive as `source`, options of the data source or an archive."""

    @wraps(command)
    def call(**given: Any) -> Any:
        names = ("namesrv", "topic", "topic_pattern", "archive", "store", "options")
        return command(source=source_of(**{name: given.pop(name) for name in names}), **given)

    return options(*READ)(call)  # type: ignore[return-value]


def source_of(
    namesrv: str, topic: str, topic_pattern: str, archive: str, store: str, options: tuple[str, ...]
) -> dict[str, str]:
    if archive and store:
        raise click.UsageError("--archive and --store: each says what to read; give one of them")
    where = {"archive": archive} if archive else {"store": store} if store else {"nameServer": namesrv}
    if "nameServer" in where and not topic and not topic_pattern:
        raise click.UsageError("--topic, --topic-pattern, --archive or --store says what to read; give one of them")
    which = {"topic": topic, "topicPattern": topic_pattern}
    return where | {name: value for name, value in which.items() if value} | pairs("--option", options)


def target_of(namesrv: str, topic: str, options: tuple[str, ...]) -> dict[str, str]:
    """Return where a job writes, with the connection options of its read if that is from brokers."""
    known = declared(NetOptions)
    given = pairs("--option", options)
    return {"nameServer": namesrv, "topic": topic} | {
        name: value for name, value in given.items() if name.lower() in known
    }


def pairs(name: str, given: tuple[str, ...]) -> dict[str, str]:
    wrong = [each for each in given if "=" not in each]
    if wrong:
        raise click.UsageError(f"{name} {wrong[0]}: write KEY=VALUE")
    return {key: value for key, _, value in (each.partition("=") for each in given)}


def time_of(name: str, text: str) -> int | None:
    from ...pipelines.run.times import moment

    return moment(name, text, SystemClock().now_ms()) if text else None


def times_of(given: dict[str, Any]) -> dict[str, Any]:
    """Take --since and --until out of what a command was given, and return them as since_ms and until_ms."""
    return {f"{name}_ms": time_of(name, given.pop(name)) for name in ("since", "until")}


def checkpoint_of(name: str, folder: str) -> str:
    """Return the folder, or a temporary one with a warning: a restart begins anew then."""
    if folder:
        return folder
    print_lines(f"{name}: no --checkpoint: if it is stopped, a second run sends everything again", err=True)
    return mkdtemp(prefix="pyromq-")


@contextmanager
def spark_for(name: str, master: str, memory: str, conf: tuple[str, ...]) -> Iterator[SparkSession]:
    """Yield a Spark session. Progress goes to stderr: a first answer takes Spark about ten seconds."""
    check_machine()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    print_lines(f"{name}: starting Spark on {master or 'this machine'}", err=True)
    session = new_session(name, master=master, memory=memory, settings=pairs("--conf", conf), apart=True)
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


def _cancel_jobs(sessions: Sequence[SparkSession]) -> None:
    from py4j.protocol import Py4JError

    for spark in sessions:
        with suppress(Py4JError, OSError):
            spark.sparkContext.cancelAllJobs()


def check_source(source: Mapping[str, str]) -> None:
    """Raise for topics and stores that do not exist, before Spark is started. Patterns are left to the read."""
    check_machine()
    from ...spark.connect.cluster import Cluster
    from ...spark.store.store_scan import plan

    for store in source.get("store", "").split(","):
        if store.strip():
            plan(store.strip(), 1)
    topics = [each.strip() for each in source.get("topic", "").split(",") if each.strip()]
    if topics and source.get("nameServer") and "archive" not in source:
        known = declared(NetOptions)
        net = {name: value for name, value in source.items() if name.lower() in known}
        with Cluster(connection_options(net, Use.BATCH)) as cluster:
            cluster.queues(topics)


def show(summary: Summary, as_json: bool) -> None:
    print_text(summary.as_json() if as_json else summary.as_text(get_terminal_size((120, 40)).columns), nl=as_json)


def _print_progress(text: str) -> None:
    print_drawn(text, err=True)


def _quiet(text: str) -> None:
    """Print nothing (--progress off)."""
