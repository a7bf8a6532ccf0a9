"""Topics to Parquet, by topic and date, with a manifest of offsets: no gap, nothing twice, wherever it is killed.

    ARCHIVE/data/batch=7/topic=orders/date=2026-11-16/part-....parquet        the rows of micro-batch 7
    ARCHIVE/manifest/7.json                                             the offsets in it; it is there when the rows are
    ARCHIVE/checkpoint/                                                 Spark's own

A batch that is repeated replaces its own folder and then its own manifest; readers take the batches of manifests alone,
so half a batch is never seen. The folder may be on any file system that Spark writes to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import PyroError
from ..spark.offsets import Offsets, Queue, from_json
from .files import read_texts, write_text
from .summary import Summary, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACES = ["topic", "brokerName", "queueId"]


def archive(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str,
    *,
    every: str = "",
    compression: str = "zstd",
    dry_run: bool = False,
) -> Summary:
    """What is there now, or with `every` (`10 seconds`) for ever. `source`: options of the data source.

    A new archive begins with the earliest messages unless the options say otherwise.
    """
    given = {"startingOffsets": "earliest", **source}
    if dry_run:
        return _waiting(spark, given, folder)
    frame = spark.readStream.format("rocketmq").options(**given).load()

    def keep(batch: DataFrame, number: int) -> None:
        _keep(spark, batch, number, folder, compression)

    sink = frame.writeStream.queryName("pyromq-archive").foreachBatch(keep)
    sink = sink.option("checkpointLocation", f"{folder}/checkpoint")
    query = (sink.trigger(processingTime=every) if every else sink.trigger(availableNow=True)).start()
    query.awaitTermination()
    return summary(spark, folder)


def _keep(spark: SparkSession, batch: DataFrame, number: int, folder: str, compression: str) -> None:
    """Rows first, then the manifest that makes them count. Both replace what an earlier try left."""
    from pyspark.sql import functions

    batch.persist()  # counted and written: one read of the brokers
    try:
        dated = batch.withColumn("date", functions.to_date("storeTimestamp"))
        parts = dated.withColumn("messageTopic", functions.col("topic"))
        writer = parts.write.mode("overwrite").option("compression", compression)
        # Bodies do not repeat: a dictionary of them costs a fifth of the time and saves nothing.
        writer = writer.option("parquet.enable.dictionary#body", "false")
        writer.partitionBy("topic", "date").parquet(f"{folder}/data/batch={number}")
        held = batch.groupBy(*_PLACES).agg(
            functions.min("queueOffset").alias("begin"),
            (functions.max("queueOffset") + 1).alias("end"),
            functions.count("*").alias("messages"),
        )
        queues = [row.asDict() for row in held.collect()]
    finally:
        batch.unpersist()
    write_text(spark, f"{folder}/manifest/{number}.json", json.dumps({"batch": number, "queues": queues}))


def manifests(spark: SparkSession, folder: str) -> list[dict[str, Any]]:
    """In the order of batches."""
    found = [json.loads(text) for text in read_texts(spark, f"{folder}/manifest", ".json")]
    return sorted(found, key=lambda each: int(each["batch"]))


def read_archive(spark: SparkSession, folder: str) -> DataFrame:
    """The archived messages, with the columns of the source and `date`."""
    from pyspark.sql import functions

    numbers = [int(each["batch"]) for each in manifests(spark, folder) if each["queues"]]
    if not numbers:
        raise PyroError(f"{folder} holds no archive: it has no manifest. Make one by `pyromq pipeline archive`")
    paths = [f"{folder}/data/batch={number}" for number in numbers]
    frame = spark.read.option("basePath", f"{folder}/data").parquet(*paths)
    return frame.withColumn("topic", functions.col("messageTopic")).drop("messageTopic", "batch")


def gaps(found: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Offsets]:
    """Offsets between batches that no batch has, and up to where each queue is kept without one: pure.

    A gap is not always a loss: a topic's offsets may have holes (damage, a filter at the broker).
    """
    ends: Offsets = {}
    safe: Offsets = {}
    missing: list[dict[str, Any]] = []
    for manifest in found:
        for row in manifest["queues"]:
            queue = Queue(row["topic"], row["brokerName"], row["queueId"])
            if queue in ends and row["begin"] > ends[queue]:
                missing.append({"queue": str(queue), "begin": ends[queue], "end": row["begin"]})
            elif safe.get(queue, row["begin"]) == ends.get(queue, row["begin"]):
                safe[queue] = max(row["end"], safe.get(queue, 0))
            ends[queue] = max(row["end"], ends.get(queue, 0))
            safe.setdefault(queue, row["end"])
    return missing, safe


def summary(spark: SparkSession, folder: str) -> Summary:
    """What the archive holds: messages by queue, gaps, and up to where brokers may delete."""
    found = manifests(spark, folder)
    missing, safe = gaps(found)
    counts: dict[Queue, int] = {}
    begins: Offsets = {}
    for manifest in found:
        for row in manifest["queues"]:
            queue = Queue(row["topic"], row["brokerName"], row["queueId"])
            counts[queue] = counts.get(queue, 0) + row["messages"]
            begins[queue] = min(begins.get(queue, row["begin"]), row["begin"])
    rows = [
        {
            "topic": queue.topic,
            "broker": queue.broker,
            "queue": queue.queue_id,
            "messages": counts[queue],
            "from": begins[queue],
            "safe to delete up to": safe[queue],
        }
        for queue in sorted(counts)
    ]
    facts = {"messages": sum(counts.values()), "batches": len(found), "gaps": len(missing), "folder": folder}
    tables = [Table("kept", rows)] + ([Table("gaps", missing)] if missing else [])
    return Summary("archive", facts, tables)


def _waiting(spark: SparkSession, given: Mapping[str, str], folder: str) -> Summary:
    """What a run would take, by Spark's own offset log; nothing is written."""
    from ..spark.cluster import Cluster
    from ..spark.options import Use, read_options
    from ..spark.planner import waiting
    from ..spark.starting import starting, with_retries

    options = read_options(given, Use.STREAM)
    with Cluster(options) as cluster:
        _, bounds = with_retries(cluster, options)
        logged = _logged(spark, folder)
        start = logged or starting(cluster, options, bounds, "earliest")
    latest = {queue: found.high for queue, found in bounds.items()}
    begin = {**{queue: found.low for queue, found in bounds.items()}, **start}
    rows = [
        {
            "topic": queue.topic,
            "broker": queue.broker,
            "queue": queue.queue_id,
            "from": begin[queue],
            "to": latest[queue],
        }
        for queue in sorted(latest)
    ]
    return Summary("archive (dry run)", {"messages": waiting(begin, latest), "folder": folder}, [Table("to do", rows)])


def _logged(spark: SparkSession, folder: str) -> Offsets:
    """Where the last planned batch of the checkpoint ends; nothing if there is none."""
    texts = read_texts(spark, f"{folder}/checkpoint/offsets", "", named=True)
    numbers = {int(name): text for name, text in texts if name.isdigit()}
    if not numbers:
        return {}
    return from_json(json.loads(numbers[max(numbers)].splitlines()[-1]))
