"""`pyromq pipeline` commands that only look: backlog, trace, reconcile, search, forensics, analytics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...model.names import TRACE_TOPIC
from ..terminal.tree import command
from .job import Job, job
from .options import (
    CHECKPOINT,
    DRY_RUN,
    EVERY,
    OPTION,
    SINCE,
    UNTIL,
    WHERE,
    name_server,
    options,
    pairs,
    reading,
    source_of,
    time_of,
    times_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.report.summary import Summary


@command(
    "pyromq pipeline backlog --topic orders,payments --group billing --report backlog.html",
    "pyromq pipeline backlog --store /data/store",
)
@reading
@click.option("--group", "groups", multiple=True, help="Also show this group's lag; may be given again.")
@options(EVERY, DRY_RUN)
@job
def backlog(job: Job, source: dict[str, str], groups: tuple[str, ...], every: str, dry_run: bool) -> None:
    """How much waits where: by queue, tag and group."""
    from ...pipelines.backlog import backlog as run

    if groups and "nameServer" not in source:
        raise click.UsageError("--group: lag is known to brokers alone; leave out --archive or --store")
    if dry_run:
        job.plan("backlog", source)
    else:
        job.run("backlog", lambda spark: run(spark, source, groups), every=every, reads=[source])


@command(
    "pyromq pipeline trace --since '1h ago' --report latency.html", "pyromq pipeline trace --topic orders --slowest 50"
)
@name_server
@click.option("--trace-topic", default=TRACE_TOPIC, show_default=True, help="Where clients write their traces.")
@click.option("--topic", default="", help="Read these topics too: the time of the store is then measured.")
@click.option("--slowest", default=20, show_default=True, help="Messages to list.")
@options(OPTION, SINCE, EVERY, DRY_RUN)
@job
def trace(
    job: Job,
    namesrv: str,
    trace_topic: str,
    topic: str,
    slowest: int,
    options: tuple[str, ...],
    since: str,
    every: str,
    dry_run: bool,
) -> None:
    """How long messages take: send, store, first delivery, consumption."""
    from ...pipelines.trace import trace as run

    source = {"nameServer": namesrv, "topic": trace_topic} | pairs("--option", options)
    topics = [each.strip() for each in topic.split(",") if each.strip()]
    if dry_run:
        job.plan("trace", source, since_ms=time_of("since", since))
    else:
        job.run(
            "trace",
            lambda spark: run(spark, source, topics=topics, since_ms=time_of("since", since), slowest=slowest),
            every=every,
            reads=[source, *(source | {"topic": each} for each in topics)],
        )


@command(
    "pyromq pipeline reconcile --topic orders --with-archive /data/archive --until '1h ago'",
    "pyromq pipeline reconcile --topic orders --with-topic orders --with-namesrv dr:9876",
)
@reading
@click.option("--with-topic", default="", help="The other side: topics, with commas between them.")
@click.option("--with-archive", default="", help="The other side: folder of an archive.")
@click.option("--with-store", default="", help="The other side: store folders.")
@click.option("--with-namesrv", default="", help="Name servers of the other side.  [default: the same]")
@click.option("--by", default="", help="Spark SQL for the id.  [default: the unique id, or that of what was replayed]")
@click.option("--examples", default=20, show_default=True, help="Messages to list that do not agree.")
@options(SINCE, UNTIL, WHERE, DRY_RUN)
@job
@click.pass_context
def reconcile(
    context: click.Context,
    /,
    job: Job,
    source: dict[str, str],
    with_topic: str,
    with_archive: str,
    with_store: str,
    with_namesrv: str,
    by: str,
    examples: int,
    since: str,
    until: str,
    where: str,
    dry_run: bool,
) -> None:
    """Which messages of one side the other has not, has twice, or has otherwise. Exit 1 if they do not agree."""
    from ...pipelines.reconcile import ID
    from ...pipelines.reconcile import reconcile as run
    from ...pipelines.run.plan import plan_of

    if not (with_topic or with_archive or with_store):
        raise click.UsageError("--with-topic, --with-archive or --with-store says what to compare with; give one")
    topics = with_topic or ("" if not (with_archive or with_store) else source.get("topic", ""))
    other = source_of(with_namesrv or context.params["namesrv"], topics, "", with_archive, with_store, ())
    times = times_of(since, until)
    if dry_run:
        job.run(
            "reconcile",
            lambda spark: _both(plan_of(spark, source, "left", **times), plan_of(spark, other, "right", **times)),
            reads=[source, other],
        )
        return
    agree: list[bool] = []

    def work(spark: SparkSession) -> Summary:
        done = run(spark, source, other, where=where, by=by or ID, examples=examples, **times)
        agree.append(bool(done.facts["agree"]))
        return done

    job.run("reconcile", work, reads=[source, other])
    if not all(agree):
        context.exit(1)


def _both(left: Summary, right: Summary) -> Summary:
    from ...pipelines.report.summary import Table

    tables = [Table(f"{each.pipeline}: {table.title}", table.rows) for each in (left, right) for table in each.tables]
    facts = {"left": left.facts.get("messages"), "right": right.facts.get("messages")}
    return replace(left, pipeline="reconcile (dry run)", facts=facts, tables=tables)


@command(
    "pyromq pipeline search --archive /data/archive --key order-4711",
    "pyromq pipeline search --store /data/store --property shop=7 --body-pattern 'total.*0'",
)
@reading
@click.option("--key", default="", help="One of the message's keys.")
@click.option("--id", "message_id", default="", help="Its unique id.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property; may be given again.")
@click.option("--body", default="", help="A text that the body contains.")
@click.option("--body-pattern", default="", help="An expression that fits somewhere in the body.")
@click.option("--most", default=100, show_default=True, help="Messages to show.")
@options(SINCE, UNTIL, WHERE, DRY_RUN)
@job
def search(
    job: Job,
    source: dict[str, str],
    key: str,
    message_id: str,
    properties: tuple[str, ...],
    body: str,
    body_pattern: str,
    most: int,
    since: str,
    until: str,
    where: str,
    dry_run: bool,
) -> None:
    """Messages by key, property or body, over archives and stores too."""
    from ...pipelines.search import search as run

    wanted = pairs("--property", properties)
    if not (key or message_id or wanted or body or body_pattern or where):
        raise click.UsageError("--key, --id, --property, --body, --body-pattern or --where says what to look for")
    times = times_of(since, until)
    if dry_run:
        job.plan("search", source, **times)
        return

    def work(spark: SparkSession) -> Summary:
        return run(
            spark,
            source,
            key=key,
            message_id=message_id,
            properties=wanted,
            body=body,
            body_pattern=body_pattern,
            where=where,
            most=most,
            **times,
        )

    job.run("search", work, reads=[source])


@command("pyromq pipeline forensics /data/store --report damage.html")
@click.argument("stores", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--topic", default="", help="Count the messages of these topics alone.")
@click.option("--tasks", default=0, help="Cut the logs into at least so many tasks.")
@DRY_RUN
@job
def forensics(job: Job, stores: tuple[Path, ...], topic: str, tasks: int, dry_run: bool) -> None:
    """What of STORES can be read: messages by topic, damaged ranges, missing offsets. Needs no broker."""
    from ...pipelines.forensics import forensics as run

    folders = [str(each) for each in stores]
    source = {"store": ",".join(folders)}
    if dry_run:
        job.plan("forensics", source)
    else:
        job.run("forensics", lambda spark: run(spark, folders, topic=topic, tasks=tasks), reads=[source])


@command(
    "pyromq pipeline analytics --topic orders --window 5m --since today --report orders.html",
    "pyromq pipeline analytics --topic orders --checkpoint /data/windows --every 10s",
)
@reading
@click.option("--window", default="1m", show_default=True, help="Length of a window.")
@click.option("--late", default="10m", show_default=True, help="How late a message may be that counts (a stream).")
@options(SINCE, UNTIL, WHERE, CHECKPOINT, EVERY, DRY_RUN)
@job
def analytics(
    job: Job,
    source: dict[str, str],
    window: str,
    late: str,
    since: str,
    until: str,
    where: str,
    checkpoint: str,
    every: str,
    dry_run: bool,
) -> None:
    """Messages, bytes, rates and distinct keys by window, topic and tag; with --checkpoint as a stream that goes on."""
    from ...pipelines.analytics import analytics as run
    from ...pipelines.analytics import analytics_stream

    if every and not checkpoint:
        raise click.UsageError("--every: a stream needs --checkpoint, where its windows are kept too")
    if checkpoint and (since or until or "nameServer" not in source):
        raise click.UsageError(
            "--checkpoint: a stream reads brokers, from their first message on; leave out the others"
        )
    times = times_of(since, until)
    if dry_run:
        job.plan("analytics", source, **times)
    elif checkpoint:
        job.run(
            "analytics",
            lambda spark: analytics_stream(
                spark, source, checkpoint, window=window, late=late, where=where, every=every
            ),
            reads=[source],
            goes_on=True,
        )
    else:
        job.run("analytics", lambda spark: run(spark, source, window=window, where=where, **times), reads=[source])
