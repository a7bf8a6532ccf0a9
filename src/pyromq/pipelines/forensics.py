"""What is left of a store: readable messages by topic, damaged ranges, missing offsets. Offline; writes nothing.

Works on Java's stores and ours, under a running broker or on a copy. `pyromq store verify` judges queues and index too;
this one reads the log alone, on as many cores as there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .report.grouping import folded
from .report.summary import Metrics, Plot, Summary, Table
from .run.messages import messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "storeSize")
_TIME = "yyyy-MM-dd HH:mm:ss"


def forensics(spark: SparkSession, stores: Sequence[str], *, topic: str = "", tasks: int = 0) -> Summary:
    """Report what can be read.

    `stores` are folders that executors see; `topic` limits the messages that are counted, not the damage.
    """
    from pyspark.sql import functions

    source = {"store": ",".join(stores)} | ({"minPartitions": str(tasks)} if tasks else {})
    damage = [
        row.asDict() for row in spark.read.format("rocketmq").options(**source, content="damage").load().collect()
    ]
    wanted = source | {"failOnDataLoss": "false", "mode": "PERMISSIVE"} | ({"topic": topic} if topic else {})
    held = messages(spark, wanted, _COLUMNS).groupBy("topic", "brokerName", "queueId").agg(
        functions.count("*").alias("messages"),
        functions.sum("storeSize").alias("bytes"),
        functions.min("queueOffset").alias("first"),
        functions.max("queueOffset").alias("last"),
        functions.count_distinct("queueOffset").alias("offsets"),
        functions.expr(f"date_format(min(storeTimestamp), '{_TIME}') AS oldest"),
        functions.expr(f"date_format(max(storeTimestamp), '{_TIME}') AS newest"),
    )  # fmt: skip
    queues = [_queue(row.asDict()) for row in held.orderBy("topic", "brokerName", "queueId").collect()]
    damage.sort(key=lambda row: (row["store"], row["position"]))
    lost = sum(row["size"] for row in damage)
    count, size = sum(row["messages"] for row in queues), sum(row["bytes"] for row in queues)
    sums = dict.fromkeys(("queues", "messages", "bytes", "missing"), sum)
    topics = folded([{**row, "queues": 1} for row in queues], ("topic",), sums)
    facts = {
        "readable": count,
        "bytes": size,
        "topics": len(topics),
        "damaged ranges": len(damage),
        "damaged bytes": lost,
        "missing offsets": sum(row["missing"] for row in queues),
    }
    tables = [Table("by topic", topics), Table("by queue", queues), Table("damage", damage)]
    plot = Plot(
        "Readable messages by topic",
        "bars",
        "messages",
        "topic",
        {"readable": {r["topic"]: r["messages"] for r in topics}},
    )
    return Summary("forensics", facts, tables, [plot], Metrics(count, size))


def _queue(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a queue.

    `missing`: offsets between the first and the last that no readable message has. `again`: had by several.
    """
    offsets = row.pop("offsets")
    row["missing"] = row["last"] - row["first"] + 1 - offsets
    row["again"] = row["messages"] - offsets
    row["store"] = row.pop("brokerName")
    return row
