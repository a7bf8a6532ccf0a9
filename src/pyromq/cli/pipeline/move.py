"""`pyromq pipeline` commands that keep or send messages: archive, replay, dlq, dedup. Each can be restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...ambient import SystemClock
from ...model.names import TRACE_TOPIC, dlq_topic
from ...pipelines.run.times import span_s
from ...spark.options import Use
from ..terminal.printing import print_lines
from ..terminal.tree import command
from .checks import check_target
from .job import Job, job
from .options import OPTION, Options, checkpoint_of, name_server, reach_of, reading, target_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.report.summary import Summary


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
@OPTION
@job("most", "every", "dry_run")
def archive(
    job: Job,
    folder: str,
    namesrv: str,
    topic: str,
    topic_pattern: str,
    group: str,
    expiring: str,
    dead_letters: bool,
    form: str,
    catalog: str,
    table: str,
    options: Options,
) -> None:
    """Keep topics in FOLDER as Parquet (or a Delta or Iceberg table), with a manifest of offsets."""
    from ...pipelines.archive import archive as run
    from ...pipelines.lake.lake import check

    which = {"topic": topic, "topicPattern": topic_pattern, "consumerGroup": group}
    check(form, catalog, table)
    source = {"nameServer": namesrv, "maxOffsetsPerTrigger": str(job.most)} | options
    source |= {name: value for name, value in which.items() if value}
    if not (topic or topic_pattern or expiring or dead_letters):
        raise click.UsageError("--topic, --topic-pattern, --expiring or --dead-letters says what to keep; give one")
    first = _first(source, expiring, dead_letters)
    if not (topic or topic_pattern or first or job.every):
        print_lines("archive: nothing goes within that time, nothing to keep", err=True)
        return
    if job.dry_run and not (topic or topic_pattern):
        source["topic"] = ",".join(first)
    by_age = bool(expiring or dead_letters)  # which topics these are changes: they are asked for again each time

    def work(spark: SparkSession) -> Summary:
        soon = _first(source, expiring, dead_letters) if job.every else first
        kept_as = {"form": form, "catalog": catalog, "table": table}
        return run(spark, source, folder, first=soon, every="" if by_age else job.every, dry_run=job.dry_run, **kept_as)

    # Of topics by age the options are checked, with all that there are.
    read = source if source.keys() & {"topic", "topicPattern"} else source | {"topicPattern": ".*"}
    job.run("archive", work, read, use=Use.STREAM, folder=folder, repeats=by_age, goes_on=True)


def _first(source: Options, expiring: str, dead_letters: bool) -> list[str]:
    """Return the topics to archive first. Asked before Spark is started: a wrong address fails at once."""
    if not (expiring or dead_letters):
        return []
    from ...pipelines.run.brokers import ages, names, rows, soon

    within_ms = round(span_s("expiring", expiring) * 1000) if expiring else -(1 << 62)
    found = soon(ages(reach_of(source), SystemClock().now_ms()), within_ms, dead_letters=dead_letters)
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
@click.option("--rate", type=click.IntRange(min=0), default=0, help="Messages a second.  [default: as fast as it goes]")
@click.option(
    "--queues",
    type=click.IntRange(min=0),
    default=0,
    help="Give the topic at least so many queues on each broker first.",
)
@click.option("--backlog-of", default="", metavar="GROUP", help="Begin where this group stands.")
@job("since", "until", "where", "most", "checkpoint", "every", "dry_run")
def replay(job: Job, source: Options, target: str, to_namesrv: str, rate: int, queues: int, backlog_of: str) -> None:
    """Send messages of a topic or an archive to a topic again."""
    from ...pipelines.replay import replay as run
    from ...pipelines.run.brokers import widen

    if "store" in source:
        raise click.UsageError("--store: replay reads topics and archives; `pyromq pipeline search` reads stores")
    namesrv = to_namesrv or str(click.get_current_context().params["namesrv"])
    goal = target_of(namesrv, target)
    if "archive" not in source:
        source["maxOffsetsPerTrigger"] = str(job.most)
    if backlog_of and (job.since or "archive" in source):
        raise click.UsageError("--backlog-of: the group says where a topic's read begins; leave out the other")
    if job.every and "archive" in source:
        raise click.UsageError("--every: an archive has an end; only a topic can be followed")
    times = job.times()
    folder = job.checkpoint

    def work(spark: SparkSession) -> Summary:
        if queues and not job.dry_run:
            widen(reach_of(goal), target, queues)
        return run(
            spark,
            source,
            goal,
            folder if job.dry_run else checkpoint_of("replay", folder),
            backlog_of=backlog_of,
            where=job.where,
            rate=rate,
            every=job.every,
            dry_run=job.dry_run,
            **times,
        )

    job.run("replay", work, source, use=Use.STREAM, to=goal, is_made=bool(queues), folder=folder, goes_on=bool(folder))


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
@OPTION
@job("checkpoint", "every", "dry_run")
def dlq(
    job: Job, namesrv: str, group: str, traces: bool, trace_topic: str, again: bool, target: str, options: Options
) -> None:
    """Which dead letters a group has, and a selection of them sent again."""
    from ...pipelines.dlq import dead_letters, redrive, report

    if target and not again:
        raise click.UsageError("--to says where --redrive sends to; give that too")
    if traces and (again or job.dry_run):
        raise click.UsageError("--traces is for the report; leave it out with --redrive and --dry-run")
    if job.checkpoint and not again:
        raise click.UsageError("--checkpoint is for --redrive: a report remembers nothing; leave it out")
    source = {"nameServer": namesrv} | options
    dead = source | {"topic": dlq_topic(group)}
    if not again:
        trace_of = trace_topic if traces else ""
        job.run_or_plan(
            "dlq",
            lambda spark: report(spark, source, group, job.where, traces=trace_of),
            *(source | {"topic": name} for name in (dead["topic"], trace_of) if name),
            built=lambda spark: dead_letters(spark, source, group, job.where),
            repeats=True,
        )
        return
    goal = {name: value for name, value in target_of(namesrv, target).items() if value}

    def work(spark: SparkSession) -> Summary:
        folder = job.checkpoint if job.dry_run else checkpoint_of("dlq", job.checkpoint)
        found = redrive(spark, source, goal, group, folder, job.where, every=job.every, dry_run=job.dry_run)
        if job.dry_run and not target:
            for origin in {row["origin"] for row in found.tables[0].rows}:
                check_target(goal | {"topic": origin})
        return found

    to = goal if target else None
    job.run("dlq", work, dead, use=Use.STREAM, to=to, folder=job.checkpoint, goes_on=bool(job.checkpoint))


@command("pyromq pipeline dedup --topic orders --by keys --within 1h /data/orders-once")
@click.argument("folder")
@reading
@click.option("--by", default="msgId", show_default=True, help="What makes two messages the same, in Spark SQL.")
@click.option("--within", default="10m", show_default=True, help="How far apart in time two of them may be.")
@click.option("--to", "target", default="", help="Send what is left to this topic too.")
@job("where", "most", "every", "dry_run")
def dedup(job: Job, folder: str, source: Options, by: str, within: str, target: str) -> None:
    """Keep each message of topics once in FOLDER, as an archive, and send it on where wanted."""
    from ...pipelines.dedup import dedup as run

    if "nameServer" not in source:
        raise click.UsageError("--archive, --store: repeats are dropped from topics of brokers; leave them out")
    if not job.dry_run:
        source["maxOffsetsPerTrigger"] = str(job.most)
    goal = target_of(source["nameServer"], target) if target else None
    span_s("within", within)

    def work(spark: SparkSession) -> Summary:
        how: dict[str, Any] = {
            "by": by,
            "within": within,
            "where": job.where,
            "every": job.every,
            "dry_run": job.dry_run,
        }
        return run(spark, source, folder, target=goal, **how)

    job.run("dedup", work, source, use=Use.STREAM, to=goal, folder=folder, goes_on=True)
