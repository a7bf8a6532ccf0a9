"""An archive or a topic, by time and by filter, sent to a topic again. At least once with Apache's brokers.

Each message says where it came from: properties REPLAY_TOPIC, REPLAY_OFFSET (broker/queue/offset) and REPLAY_ID. With a
checkpoint a run that is killed goes on where it was: a topic is read as a stream, an archive batch by batch, and what
a second try finds in the target is not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Unpack

from pyspark.sql import Column, DataFrame, SparkSession, functions

from ..errors import ConfigError
from ..model.message import Property
from ..spark.connect.cluster import Cluster
from ..spark.options import Use, batch_part, read_options
from ..spark.read.offsets import to_json
from ..spark.read.starting import with_retries
from .archive import batches, open_archive
from .report.grouping import grouped, rows_of
from .report.summary import Metrics, Summary, Table
from .run import checkpoint
from .run.messages import Source, between, chosen, messages, of_topics, stream
from .run.plan import planned, rest_of
from .run.sending import StepSender, delivery, in_order, passed_on
from .run.streaming import run_stream
from .run.times import Times

_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "msgId", "keys", "tags", "body", "properties", "flag",
    "storeTimestamp",
)  # fmt: skip


def replay(
    spark: SparkSession,
    source: Source,
    target: Mapping[str, str],
    folder: str,
    *,
    backlog_of: str = "",
    where: str = "",
    rate: int = 0,
    tasks: int = 4,
    every: str = "",
    dry_run: bool = False,
    **times: Unpack[Times],
) -> Summary:
    """Replay messages.

    `source` as `messages` has it, `target` options of a write with its topic, `folder` for the checkpoint; `rate` is
    messages a second. `where` is Spark SQL on the columns of a read. `backlog_of` is a group: what it has not consumed,
    which does not move it. `every`: go on for ever with what comes.
    """
    if not target.get("topic"):
        raise ConfigError("topic: a replay needs one to write to")
    if every and "archive" in source:
        raise ConfigError("every: an archive has an end; only a topic can be followed")
    if backlog_of:
        source = {**source, "startingOffsets": _standing(source, backlog_of)}
    start = source.get("startingOffsets")
    rest = {name: value for name, value in source.items() if name != "startingOffsets"}
    settings = {"source": checkpoint.which(rest), "group": backlog_of, "to": target["topic"], "where": where}
    if dry_run:
        fixed = checkpoint.check(spark, folder, settings).get("fixed") if folder else None
        if fixed:  # times and offsets of the first start
            source = rest | ({"startingOffsets": fixed["start"]} if fixed["start"] else {})
            times = {"since_ms": fixed["since"], "until_ms": fixed["until"]}
        return _counted(spark, source, target["topic"], folder, where, **times)
    messages(spark, rest, where=where)  # refused before anything is written
    since_ms, until_ms = times.get("since_ms"), times.get("until_ms")
    fixed = checkpoint.begin(spark, folder, settings, since=since_ms, until=until_ms, start=start)
    steps = StepSender(spark, folder, limited(target, rate), fixed["run"])
    period, tasks = (fixed["since"], fixed["until"]), 1 if rate else tasks  # the rate is that of a task
    if "archive" in rest:
        _send_archive(spark, rest, folder, steps, lambda rows: in_order(chosen(between(rows, *period), where), tasks))
    else:
        begin = {"startingOffsets": fixed["start"]} if fixed["start"] else {}
        frame = between(stream(spark, {**rest, **begin}, _COLUMNS, where=where, since_ms=fixed["since"]), *period)

        def pass_on(batch: DataFrame, number: int) -> None:
            """Send a micro-batch, which is a step: its tasks are the queues, in their order."""
            steps.send(batch.coalesce(1) if tasks == 1 else batch, number, outgoing)

        run_stream(frame.writeStream.queryName("pyromq-replay"), pass_on, folder, every)
    sent = steps.sent
    facts = {"messages": sent.rows, "to": target["topic"], "checkpoint": folder, "delivery": delivery(sent)}
    return Summary("replay", facts, [Table("sent", steps.rows)], metrics=Metrics(sent.rows, sent.bytes))


def _counted(
    spark: SparkSession, source: Source, goal: str, folder: str, where: str, **times: Unpack[Times]
) -> Summary:
    """Count what a run would send, from where the checkpoint in `folder` stands, if there is one."""
    at = checkpoint.standing(spark, folder) if folder else None
    behind = checkpoint.done(spark, folder) if folder else set()
    period, columns = (times.get("since_ms"), times.get("until_ms")), ("topic", "storeTimestamp")
    if behind:  # batches of an archive
        kept = of_topics(_batches_but(spark, source["archive"], behind), source)
        frame = chosen(between(kept, *period), where)
    elif at is not None:
        frame = between(messages(spark, rest_of(source, at, **times), columns, where=where), *period)
    else:
        frame = messages(spark, batch_part(source), columns, where=where, **times)
    tables = [Table("from", rows_of(grouped(frame, ["topic"], "count(*) AS messages").orderBy("topic")))]
    if "nameServer" in source and "archive" not in source:
        tables += planned(source, at, **times).tables
    facts = {"messages": sum(row["messages"] for row in tables[0].rows), "to": goal}
    return Summary("replay (dry run)", facts, tables)


def _batches_but(spark: SparkSession, folder: str, behind: set[int]) -> DataFrame:
    numbers = batches(spark, folder)
    left = [number for number in numbers if number not in behind]
    found = open_archive(spark, folder).read(left or numbers)
    return found if left else found.where("false")


def limited(target: Mapping[str, str], rate: int) -> dict[str, str]:
    """Return the options of a write that keeps the rate (0: none); a step has one task, which keeps it."""
    return dict(target) | ({"maxMessagesPerSecond": str(rate)} if rate else {})


def _send_archive(
    spark: SparkSession, source: Source, folder: str, steps: StepSender, shape: Callable[[DataFrame], DataFrame]
) -> None:
    """Replay an archive; a step is one of its batches."""
    kept = open_archive(spark, source["archive"])
    behind = checkpoint.done(spark, folder)
    for number in batches(spark, source["archive"]):
        if number not in behind:
            sent = steps.send(shape(of_topics(kept.read([number]), source)), number, outgoing)
            checkpoint.mark_done(spark, folder, number, {"messages": sent.rows})


def _standing(source: Source, group: str) -> str:
    """Return where a group stands in each queue, as JSON; the first message where it has not been."""
    options = read_options(source, Use.STREAM)
    with Cluster(options) as cluster:
        _, bounds = with_retries(cluster, options)
        committed = cluster.committed(group, bounds)
    return json.dumps(to_json({queue: committed.get(queue, found.low) for queue, found in bounds.items()}))


def outgoing() -> list[Column]:
    """Return the columns of a write, with where each message came from."""
    place = functions.concat_ws("/", "brokerName", "queueId", "queueOffset")
    kept = passed_on({"REPLAY_TOPIC": "topic", "REPLAY_OFFSET": place, "REPLAY_ID": "msgId"})
    return [*kept, functions.element_at("properties", Property.SHARDING_KEY).alias("shardingKey")]
