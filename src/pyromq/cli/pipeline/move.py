"""`pyromq pipeline` commands that keep or send messages: archive, replay, dlq, dedup. Each can be restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...ambient import SystemClock
from ...model.names import TRACE_TOPIC, dlq_topic
from ..terminal.printing import print_lines
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
    checkpoint_of,
    name_server,
    options,
    pairs,
    reading,
    target_of,
    times_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.report.summary import Summary

MOST = click.option("--most", default=500_000, show_default=True, help="Messages of one micro-batch.")


@command(
    "pyromq pipeline archive --topic orders,payments s3a://bucket/archive",
    "pyromq pipeline archive --expiring 12h --dead-letters /data/archive",
)
@click.argument("folder")
@name_server
@click.option("--topic", default="", help="Topics, with commas between them.")
@click.option("--topic-pattern", default="", help="Topics whose whole name this expression fits.")
@click.option("--group", default="", help="Publish the archive's offsets as those of this group.")
@click.option(
    "--expiring", default="", metavar="TIME", help="First the topics whose oldest messages go within this time."
)
@click.option("--dead-letters", is_flag=True, help="First the dead letters of all groups.")
@click.option(
    "--format", "form", type=click.Choice(["parquet", "delta", "iceberg"]), default="parquet", show_default=True
)
@click.option("--catalog", default="", help="Of Iceberg: a catalog that pyiceberg knows.  [default: a file in FOLDER]")
@click.option("--table", default="", help="Of Iceberg: the table's name.  [default: archive.messages]")
@options(OPTION, MOST, EVERY, DRY_RUN)
@job
def archive(
    job: Job,
    folder: str,
    namesrv: str,
    topic: str,
    topic_pattern: str,
    group: str,
    expiring: str,
    dead_letters: bool,
    options: tuple[str, ...],
    most: int,
    every: str,
    dry_run: bool,
    form: str,
    catalog: str,
    table: str,
) -> None:
    """Keep topics in FOLDER as Parquet (or a Delta or Iceberg table), with a manifest of offsets."""
    from ...pipelines.archive import archive as run
    from ...pipelines.lake.lake import check

    check(form)
    given = {"topic": topic, "topicPattern": topic_pattern, "consumerGroup": group}
    source = {"nameServer": namesrv, "maxOffsetsPerTrigger": str(most)} | pairs("--option", options)
    source |= {name: value for name, value in given.items() if value}
    if not (topic or topic_pattern or expiring or dead_letters):
        raise click.UsageError("--topic, --topic-pattern, --expiring or --dead-letters says what to keep; give one")
    first = _first(namesrv, expiring, dead_letters)
    if not (topic or topic_pattern or first or every):
        print_lines("archive: nothing goes within that time, nothing to keep", err=True)
        return
    if dry_run and not (topic or topic_pattern):
        source["topic"] = ",".join(first)
    by_age = bool(expiring or dead_letters)  # which topics these are changes: they are asked for again each time

    def work(spark: SparkSession) -> Summary:
        soon = _first(namesrv, expiring, dead_letters) if every else first
        going_on = "" if by_age else every
        return run(
            spark,
            source,
            folder,
            first=soon,
            every=going_on,
            form=form,
            catalog=catalog,
            table=table,
            dry_run=dry_run,
        )

    job.run("archive", work, every=every if by_age else "", reads=[source], goes_on=True)


def _first(namesrv: str, expiring: str, dead_letters: bool) -> list[str]:
    """Return the topics to archive first. Asked before Spark is started: a wrong address fails at once."""
    if not (expiring or dead_letters):
        return []
    from ...pipelines.run.expiring import ages, names, rows, soon
    from ...pipelines.run.times import span_s

    within_ms = round(span_s("expiring", expiring) * 1000) if expiring else -(1 << 62)
    found = soon(ages(namesrv, SystemClock().now_ms()), within_ms, dead_letters=dead_letters)
    for row in rows(found):
        print_lines(f"archive: first {row['topic']} of {row['broker']}, {row['hours left']} h left", err=True)
    return names(found)


@command(
    "pyromq pipeline replay --topic orders --since 'yesterday 00:00' --to orders-again --checkpoint /data/run7",
    "pyromq pipeline replay --topic orders --backlog-of billing --to orders-wide --queues 32",
)
@reading
@click.option("--to", "target", required=True, help="Topic to write to.")
@click.option("--to-namesrv", default="", help="Name servers of the cluster to write to.  [default: the same]")
@click.option("--rate", default=0, help="Messages a second.  [default: as fast as it goes]")
@click.option("--queues", default=0, help="Give the topic at least so many queues on each broker first.")
@click.option("--backlog-of", default="", metavar="GROUP", help="Begin where this group stands.")
@options(SINCE, UNTIL, WHERE, MOST, CHECKPOINT, EVERY, DRY_RUN)
@job
@click.pass_context
def replay(
    context: click.Context,
    /,
    job: Job,
    source: dict[str, str],
    target: str,
    to_namesrv: str,
    rate: int,
    queues: int,
    backlog_of: str,
    since: str,
    until: str,
    where: str,
    most: int,
    checkpoint: str,
    every: str,
    dry_run: bool,
) -> None:
    """Send messages of a topic or an archive to a topic again."""
    from ...pipelines.replay import replay as run
    from ...pipelines.run.queues import widen

    if "store" in source:
        raise click.UsageError("--store: replay reads topics and archives; `pyromq pipeline search` reads stores")
    namesrv = to_namesrv or str(context.params["namesrv"])
    goal = target_of(namesrv, target, context.params["options"])
    if "archive" not in source and not dry_run:
        source["maxOffsetsPerTrigger"] = str(most)
    if backlog_of and (since or "archive" in source):
        raise click.UsageError("--backlog-of: the group says where a topic's read begins; leave out the other")
    if queues and not dry_run:
        widen(namesrv, target, queues)
    folder = "" if dry_run else checkpoint_of("replay", checkpoint)
    times = times_of(since, until)

    def work(spark: SparkSession) -> Summary:
        return run(
            spark,
            source,
            goal,
            folder,
            backlog_of=backlog_of,
            where=where,
            rate=rate,
            every=every,
            dry_run=dry_run,
            **times,
        )

    job.run("replay", work, reads=[source], goes_on=bool(checkpoint))


@command(
    "pyromq pipeline dlq --group billing",
    "pyromq pipeline dlq --group billing --where \"tags = 'paid'\" --redrive --checkpoint /data/redrive",
)
@name_server
@click.option("--group", required=True, help="Consumer group whose dead letters are meant.")
@click.option("--where", default="", help="Spark SQL on the columns of a read and `origin`, the topic that failed.")
@click.option("--traces", is_flag=True, help="Also why: how listeners ended, from the trace topic.")
@click.option("--trace-topic", default=TRACE_TOPIC, show_default=True, help="Where clients write their traces.")
@click.option("--redrive", "again", is_flag=True, help="Send the selection to the topics where it failed.")
@click.option("--to", "target", default="", help="Send it to this topic instead.")
@options(OPTION, CHECKPOINT, EVERY, DRY_RUN)
@job
def dlq(
    job: Job,
    namesrv: str,
    group: str,
    where: str,
    traces: bool,
    trace_topic: str,
    again: bool,
    target: str,
    options: tuple[str, ...],
    checkpoint: str,
    every: str,
    dry_run: bool,
) -> None:
    """Which dead letters a group has, and a selection of them sent again."""
    from ...pipelines.dlq import redrive, report

    if target and not again:
        raise click.UsageError("--to says where --redrive sends to; give that too")
    if traces and (again or dry_run):
        raise click.UsageError("--traces is for the report; leave it out with --redrive and --dry-run")
    if checkpoint and not again:
        raise click.UsageError("--checkpoint is for --redrive: a report remembers nothing; leave it out")
    source = {"nameServer": namesrv} | pairs("--option", options)
    dead = [source | {"topic": dlq_topic(group)}]
    if not again and dry_run:
        job.plan("dlq", dead[0])
        return
    if not again:
        trace_of = trace_topic if traces else ""
        job.run("dlq", lambda spark: report(spark, source, group, where, traces=trace_of), every=every, reads=dead)
        return
    goal = {name: value for name, value in target_of(namesrv, target, options).items() if value}
    folder = "" if dry_run else checkpoint_of("dlq", checkpoint)
    job.run(
        "dlq",
        lambda spark: redrive(spark, source, goal, group, folder, where, every=every, dry_run=dry_run),
        reads=dead,
        goes_on=bool(checkpoint),
    )


@command("pyromq pipeline dedup --topic orders --by keys --within 1h /data/orders-once")
@click.argument("folder")
@reading
@click.option("--by", default="msgId", show_default=True, help="What makes two messages the same, in Spark SQL.")
@click.option("--within", default="10m", show_default=True, help="How far apart in time two of them may be.")
@click.option("--to", "target", default="", help="Send what is left to this topic too.")
@options(WHERE, MOST, EVERY, DRY_RUN)
@job
@click.pass_context
def dedup(
    context: click.Context,
    /,
    job: Job,
    folder: str,
    source: dict[str, str],
    by: str,
    within: str,
    target: str,
    where: str,
    most: int,
    every: str,
    dry_run: bool,
) -> None:
    """Keep each message of topics once in FOLDER, as an archive, and send it on where wanted."""
    from ...pipelines.dedup import dedup as run

    if "nameServer" not in source:
        raise click.UsageError("--archive, --store: repeats are dropped from topics of brokers; leave them out")
    if dry_run:
        job.plan("dedup", source)
        return
    source["maxOffsetsPerTrigger"] = str(most)
    goal = target_of(source["nameServer"], target, context.params["options"]) if target else None
    job.run(
        "dedup",
        lambda spark: run(spark, source, folder, target=goal, by=by, within=within, where=where, every=every),
        reads=[source],
        goes_on=True,
    )
