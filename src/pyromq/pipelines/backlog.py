"""How much waits where: messages, bytes and age by queue and tag, and each group's lag. One pass over the headers.

Reads neither bodies nor properties, except for tags. Nothing is committed, no group moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..spark.cluster import Cluster
from ..spark.options import Use, connection_options
from .summary import Summary, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "topic string, brokerName string, queueId int, tags string, storeTimestamp timestamp, storeSize int"
_SUMS = [
    "count(*) AS messages",
    "sum(storeSize) AS bytes",
    "date_format(min(storeTimestamp), 'yyyy-MM-dd HH:mm') AS oldest",
    "date_format(max(storeTimestamp), 'yyyy-MM-dd HH:mm') AS newest",
]


def backlog(spark: SparkSession, source: Mapping[str, str], groups: Sequence[str] = ()) -> Summary:
    """`source` holds options of the data source: nameServer and topic, topicPattern or assign."""
    frame = spark.read.format("rocketmq").schema(_SCHEMA).options(**source).load()
    by_queue = _summed(
        frame, "topic", "brokerName AS broker", "queueId AS queue", "coalesce(tags, '') AS tag"
    ).collect()
    rows = [row.asDict() for row in by_queue]
    queues = _folded(rows, ("topic", "broker", "queue"))
    tables = [
        Table("by queue", _with_share(queues)),
        Table("by tag", _folded(rows, ("topic", "tag"))),
    ]
    if groups:
        topics = sorted({row["topic"] for row in queues})
        tables.append(Table("lag", _lag(source, topics, groups)))
    return Summary("backlog", {"messages": sum(row["messages"] for row in queues)}, tables)


def _summed(frame: DataFrame, *columns: str) -> DataFrame:
    named = frame.selectExpr(*columns, "storeSize", "storeTimestamp")
    names = [name for name in named.columns if name not in ("storeSize", "storeTimestamp")]
    from pyspark.sql import functions

    return named.groupBy(*names).agg(*(functions.expr(each) for each in _SUMS)).orderBy(*names)


def _folded(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Fewer, larger groups of what Spark has grouped already: a few rows per queue and tag."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        one = found.setdefault(key, {name: row[name] for name in names} | {"messages": 0, "bytes": 0})
        one["messages"] += row["messages"]
        one["bytes"] += row["bytes"]
        one["oldest"] = min(one.get("oldest", row["oldest"]), row["oldest"])
        one["newest"] = max(one.get("newest", row["newest"]), row["newest"])
    return [found[key] for key in sorted(found)]


def _with_share(queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Percent of the topic's messages that are in this queue: skew shows at once."""
    totals: dict[str, int] = {}
    for row in queues:
        totals[row["topic"]] = totals.get(row["topic"], 0) + row["messages"]
    shares = [f"{100 * row['messages'] / totals[row['topic']]:.0f}%" for row in queues]
    return [
        {name: value for name, value in row.items() if name != "newest"} | {"share": share}
        for row, share in zip(queues, shares, strict=True)
    ]


def _lag(source: Mapping[str, str], topics: Sequence[str], groups: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    with Cluster(connection_options({"nameServer": source["nameServer"]}, Use.BATCH)) as cluster:
        queues = cluster.queues(topics)
        bounds = cluster.bounds(queues)
        for group in groups:
            committed = cluster.committed(group, queues)
            for queue in sorted(bounds):
                at = committed.get(queue)
                rows.append(
                    {
                        "group": group,
                        "topic": queue.topic,
                        "queue": queue.queue_id,
                        "committed": at,
                        "end": bounds[queue].high,
                        "lag": None if at is None else bounds[queue].high - at,
                    }
                )
    return rows
