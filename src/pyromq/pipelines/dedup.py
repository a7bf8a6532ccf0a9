"""A topic without its repeats, to Parquet or to another topic: messages with the same key within a time count once.

Parquet has the layout of an archive, and `read_archive` reads it. On the way to a topic each batch is kept there first
and sent from there: which of two equal messages Spark keeps may differ when a batch is repeated, but what is sent must
be the same again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession, functions

from ..spark.write.sending import SendTotals
from .archive import keep_batch
from .lake.files import read_text
from .lake.lake import Lake
from .lake.manifest import manifests, totals
from .replay import outgoing
from .report.grouping import folded
from .report.summary import Summary, Table
from .run import checkpoint
from .run.messages import Source, stream
from .run.plan import plan_of
from .run.sending import StepSender, delivery, in_order
from .run.streaming import run_stream
from .run.times import interval

BY = "msgId"


def dedup(
    spark: SparkSession,
    source: Source,
    folder: str,
    *,
    target: Mapping[str, str] | None = None,
    by: str = BY,
    within: str = "10m",
    where: str = "",
    tasks: int = 4,
    every: str = "",
    dry_run: bool = False,
) -> Summary:
    """Keep each message once.

    `folder` has the rows and the checkpoint; `target` are options of a write. `by` is Spark SQL: `keys`, `msgId`,
    `properties['ORDER']`, a part of the body. Rows without it (null) are all kept.
    """
    settings = {"source": checkpoint.which(source), "to": (target or {}).get("topic", "")}
    settings |= {"by": by, "within": within, "where": where}
    once = _once(stream(spark, source, where=where), by, within)  # refused before anything is written
    if dry_run:
        checkpoint.check(spark, folder, settings)
        return plan_of(spark, source, "dedup", checkpoint.standing(spark, folder))
    run = checkpoint.begin(spark, folder, settings)["run"]
    rows = Lake(spark, folder, run=run)
    before = {int(each["batch"]) for each in manifests(spark, folder)}
    checkpoint.check_whole(spark, folder, before)
    steps = StepSender(spark, folder, target or {}, run)

    def keep(batch: DataFrame, number: int) -> None:
        if read_text(spark, f"{folder}/manifest/{number}.json") is None:
            keep_batch(rows, batch, number, whole=False)
        else:  # not written anew; the state of the stream still is
            batch.write.format("noop").mode("append").save()
        if target and _count(rows, number):
            steps.send(in_order(rows.read([number]), tasks), number, outgoing)

    run_stream(once.writeStream.queryName("pyromq-dedup"), keep, folder, every)
    return _summary(spark, folder, before, steps.sent, target)


def _once(frame: DataFrame, by: str, within: str) -> DataFrame:
    place = "concat_ws('/', topic, brokerName, queueId, queueOffset)"
    timed = frame.withWatermark("storeTimestamp", interval("within", within))
    keyed = timed.withColumn("dedupKey", functions.expr(f"coalesce(cast({by} AS string), {place})"))
    return keyed.dropDuplicatesWithinWatermark(["topic", "dedupKey"]).drop("dedupKey")


def _count(rows: Lake, number: int) -> int:
    text = read_text(rows.spark, f"{rows.folder}/manifest/{number}.json")
    return totals([json.loads(text)]).rows if text else 0


def _summary(
    spark: SparkSession, folder: str, before: set[int], sent: SendTotals, target: Mapping[str, str] | None
) -> Summary:
    found = manifests(spark, folder)
    new = [each for each in found if int(each["batch"]) not in before]
    topics = folded((row for manifest in found for row in manifest["queues"]), ("topic",), {"messages": sum})
    facts = {"messages": totals(found).rows, "new": totals(new).rows, "folder": folder}
    if target:
        facts |= {"sent": sent.rows, "to": target.get("topic", ""), "delivery": delivery(sent)}
    return Summary("dedup", facts, [Table("kept", topics)], metrics=totals(new))
