"""What is left of a store: readable messages by topic, damaged ranges, missing offsets. Offline; writes nothing.

Works on Java's stores and ours, under a running broker or on a copy. `pyromq store verify` judges queues and index too;
this one reads the log alone, on as many cores as there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from .report.grouping import AGES, COUNTS, folded, grouped, rows_of
from .report.summary import Metrics, Plot, Summary, Table
from .run.messages import messages

_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "storeSize")


def forensics(spark: SparkSession, stores: Sequence[str], *, topic: str = "", tasks: int = 0) -> Summary:
    """Report what can be read of `stores`, folders that executors see. `topic` limits the messages, not the damage."""
    source = {"store": ",".join(stores)} | ({"minPartitions": str(tasks)} if tasks else {})
    damage = rows_of(spark.read.format("rocketmq").options(**source, content="damage").load())
    wanted = source | {"failOnDataLoss": "false", "mode": "PERMISSIVE"} | ({"topic": topic} if topic else {})
    by = ("topic", "brokerName", "queueId")
    found = grouped(
        messages(spark, wanted, _COLUMNS),
        by,
        *COUNTS,
        "min(queueOffset) AS first",
        "max(queueOffset) AS last",
        "count(DISTINCT queueOffset) AS offsets",
        *AGES,
    )
    queues = [_queue(row) for row in rows_of(found.orderBy(*by))]
    damage.sort(key=lambda row: (row["store"], row["position"]))
    metrics = Metrics.of(queues)
    sums = dict.fromkeys(("queues", "messages", "bytes", "missing"), sum)
    topics = folded([{**row, "queues": 1} for row in queues], ("topic",), sums)
    facts = {
        "readable": metrics.rows,
        "bytes": metrics.bytes,
        "topics": len(topics),
        "damagedRanges": len(damage),
        "damagedBytes": sum(row["size"] for row in damage),
        "missingOffsets": sum(row["missing"] for row in queues),
    }
    tables = [Table("byTopic", topics), Table("byQueue", queues), Table("damage", damage)]
    series = {"readable": {row["topic"]: row["messages"] for row in topics}}
    plot = Plot("Readable messages by topic", "bars", "messages", "topic", series)
    return Summary("forensics", facts, tables, [plot], metrics)


def _queue(row: dict[str, Any]) -> dict[str, Any]:
    """Add `missing`, offsets from the first to the last that no readable message has, and `again`, had by several."""
    offsets = row.pop("offsets")
    row["missing"] = row["last"] - row["first"] + 1 - offsets
    row["again"] = row["messages"] - offsets
    row["store"] = row.pop("brokerName")
    return row
