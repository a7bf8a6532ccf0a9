"""`pyromq pipeline` commands that only look: backlog, trace, reconcile, search, forensics, analytics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...model.names import TRACE_TOPIC
from ...pipelines.run.times import span_s
from ...spark.options import Use, net_part
from ..terminal.tree import command
from .job import Job, job
from .options import COUNT, OPTION, Options, name_server, pairs_option, reading, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.report.summary import Summary


@command(
    "pyromq pipeline backlog --topic orders,payments --group billing --report backlog.html",
    "pyromq pipeline backlog --store /data/store",
)
@reading
@click.option("--group", "groups", multiple=True, help="Also show this group's lag; may be given again.")
@job("every", "dry_run")
def backlog(job: Job, source: Options, groups: tuple[str, ...]) -> None:
    """How much waits where: by queue, tag and group."""
    from ...pipelines.backlog import backlog as run

    if groups and "nameServer" not in source:
        raise click.UsageError("--group: lag is known to brokers alone; leave out --archive or --store")
    job.run_or_plan("backlog", lambda spark: run(spark, source, groups), source, repeats=True)


@command(
    "pyromq pipeline trace --since '1h ago' --report latency.html", "pyromq pipeline trace --topic orders --slowest 50"
)
@name_server
@click.option("--trace-topic", default=TRACE_TOPIC, show_default=True, help="Where clients write their traces.")
@click.option("--topic", default="", help="Read these topics too: the time of the store is then measured.")
@click.option("--slowest", type=COUNT, default=20, show_default=True, help="Messages to list.")
@OPTION
@job("since", "every", "dry_run")
def trace(job: Job, namesrv: str, trace_topic: str, topic: str, slowest: int, options: Options) -> None:
    """How long messages take: send, store, first delivery, consumption."""
    from ...pipelines.trace import trace as run

    source = {"nameServer": namesrv, "topic": trace_topic} | options
    topics = [each.strip() for each in topic.split(",") if each.strip()]

    job.times()  # refused before Spark is started

    def work(spark: SparkSession) -> Summary:  # `1h ago` is another time each time
        return run(spark, source, topics=topics, since_ms=job.times()["since_ms"], slowest=slowest)

    job.run_or_plan("trace", work, source, *(source | {"topic": each} for each in topics), repeats=True)


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
@click.option("--examples", type=COUNT, default=20, show_default=True, help="Messages to list that do not agree.")
@job("since", "until", "where", "dry_run")
def reconcile(job: Job, source: Options, by: str, examples: int, **given: str) -> None:
    """Which messages of one side the other has not, has twice, or has otherwise. Exit 1 if they do not agree."""
    from ...pipelines.reconcile import ID, compared
    from ...pipelines.reconcile import reconcile as run
    from ...pipelines.run.plan import plan_of

    context = click.get_current_context()
    topic, archive, store, namesrv = (given[f"with_{name}"] for name in ("topic", "archive", "store", "namesrv"))
    if not (topic or archive or store):
        raise click.UsageError("--with-topic, --with-archive or --with-store says what to compare with; give one")
    names, net = topic or source.get("topic", ""), net_part(context.params["options"]) if topic else {}
    other = source_of(namesrv or context.params["namesrv"], names, "", archive, store, net)
    times = job.times()
    agree: list[bool] = []

    def work(spark: SparkSession) -> Summary:
        if job.dry_run:
            compared(spark, source, other, job.where, by or ID, **times)
            return _both(plan_of(spark, source, "left", **times), plan_of(spark, other, "right", **times))
        done = run(spark, source, other, where=job.where, by=by or ID, examples=examples, **times)
        agree.append(bool(done.facts["agree"]))
        return done

    job.run("reconcile", work, source, other)
    if not all(agree):
        context.exit(1)


def _both(left: Summary, right: Summary) -> Summary:
    sides = {"left": left, "right": right}
    tables = [replace(table, title=f"{side}ToDo") for side, each in sides.items() for table in each.tables]
    facts = {"left": left.facts.get("messages"), "right": right.facts.get("messages")}
    return replace(left, pipeline="reconcile (dry run)", facts=facts, tables=tables)


@command(
    "pyromq pipeline search --archive /data/archive --key order-4711",
    "pyromq pipeline search --store /data/store --property shop=7 --body-pattern 'total.*0'",
)
@reading
@click.option("--key", default="", help="One of the message's keys.")
@click.option("--id", "message_id", default="", help="Its unique id.")
@pairs_option("--property", "properties", metavar="NAME=VALUE", help="A property; may be given again.")
@click.option("--body", default="", help="A text that the body contains.")
@click.option("--body-pattern", default="", help="An expression that fits somewhere in the body.")
@click.option("--most", type=COUNT, default=100, show_default=True, help="Messages to show.")
@job("since", "until", "where", "dry_run")
def search(
    job: Job, source: Options, key: str, message_id: str, properties: Options, body: str, body_pattern: str
) -> None:
    """Messages by key, property or body, over archives and stores too."""
    from ...pipelines.search import search as run

    wanted: dict[str, Any] = {
        "key": key,
        "message_id": message_id,
        "body": body,
        "body_pattern": body_pattern,
        "where": job.where,
    }
    if not (any(wanted.values()) or properties):
        raise click.UsageError("--key, --id, --property, --body, --body-pattern or --where says what to look for")
    times = job.times()
    wanted |= {"properties": properties, "most": job.most, "dry_run": job.dry_run}
    job.run("search", lambda spark: run(spark, source, **wanted, **times), source)


@command("pyromq pipeline forensics /data/store --report damage.html")
@click.argument("stores", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--topic", default="", help="Count the messages of these topics alone.")
@click.option("--tasks", type=click.IntRange(min=0), default=0, help="Cut the logs into at least so many tasks.")
@job("dry_run")
def forensics(job: Job, stores: tuple[Path, ...], topic: str, tasks: int) -> None:
    """What of STORES can be read: messages by topic, damaged ranges, missing offsets. Needs no broker."""
    from ...pipelines.forensics import forensics as run

    folders = [str(each) for each in stores]
    source = {"store": ",".join(folders)}
    job.run_or_plan("forensics", lambda spark: run(spark, folders, topic=topic, tasks=tasks), source)


@command(
    "pyromq pipeline analytics --topic orders --window 5m --since today --report orders.html",
    "pyromq pipeline analytics --topic orders --checkpoint /data/windows --every 10s",
)
@reading
@click.option("--window", default="1m", show_default=True, help="Length of a window.")
@click.option("--late", default="10m", show_default=True, help="How late a message may be that counts (a stream).")
@job("since", "until", "where", "checkpoint", "every", "dry_run")
def analytics(job: Job, source: Options, window: str, late: str) -> None:
    """Messages, bytes, rates and distinct keys by window, topic and tag; with --checkpoint as a stream that goes on."""
    from ...pipelines.analytics import analytics as run
    from ...pipelines.analytics import analytics_stream

    if job.every and not job.checkpoint:
        raise click.UsageError("--every: a stream needs --checkpoint, where its windows are kept too")
    if job.checkpoint and (job.since or job.until or "nameServer" not in source):
        raise click.UsageError(
            "--checkpoint: a stream reads brokers, from their first message on; leave out the others"
        )
    times = job.times()
    for name, length in {"window": window, "late": late}.items():
        span_s(name, length)

    def work(spark: SparkSession) -> Summary:
        if not job.checkpoint:
            return run(spark, source, window=window, where=job.where, dry_run=job.dry_run, **times)
        how: dict[str, Any] = {
            "window": window,
            "late": late,
            "where": job.where,
            "every": job.every,
            "dry_run": job.dry_run,
        }
        return analytics_stream(spark, source, job.checkpoint, **how)

    use = Use.STREAM if job.checkpoint else Use.BATCH
    job.run("analytics", work, source, use=use, folder=job.checkpoint, goes_on=bool(job.checkpoint))
