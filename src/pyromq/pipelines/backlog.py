"""How much waits where: messages, bytes and age by queue and tag, and each group's lag. One pass over the headers.

Reads neither bodies nor properties, except for tags. Nothing is committed, no group moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from ..model.lag import difference
from ..spark.connect.cluster import Cluster
from ..spark.options import Use, connection_options, net_part
from .report.grouping import AGES, COUNTS, Fold, folded, grouped, least, most, rows_of
from .report.summary import Metrics, Plot, Summary, Table, series_of
from .run.messages import Source, messages

_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "tags", "storeTimestamp", "storeSize")
_SUMS: dict[str, Fold] = {"messages": sum, "bytes": sum, "oldestMs": least}


def backlog(spark: SparkSession, source: Source, groups: Sequence[str] = ()) -> Summary:
    """Report what waits. `source` as `messages` has it; groups need one with a name server."""
    named = messages(spark, source, _COLUMNS).selectExpr(
        "topic", "brokerName AS broker", "queueId AS queue", "queueOffset", "coalesce(tags, '') AS tag", "storeSize",
        "storeTimestamp",
    )  # fmt: skip
    found = grouped(
        named,
        ["topic", "broker", "queue", "tag"],
        *COUNTS,
        *AGES,
    )
    rows = rows_of(found)
    queues = _with_share(folded(rows, ("topic", "broker", "queue"), _SUMS))
    tags = folded(rows, ("topic", "tag"), _SUMS | {"newestMs": most})
    tables = [Table("byTopic", _by_topic(queues)), Table("byQueue", queues), Table("byTag", tags)]
    by_queue = {f"{row['topic']}/{row['broker']}/{row['queue']}": row["messages"] for row in queues}
    by_tag = {f"{row['topic']} {row['tag'] or '(no tag)'}": row["bytes"] for row in tags}
    plots = [
        Plot("Messages by queue", "bars", "messages", "topic/broker/queue", {"messages": by_queue}),
        Plot("Bytes by tag", "bars", "bytes", "topic and tag", {"bytes": by_tag}),
    ]
    if groups:
        lag = _lag(source, sorted({row["topic"] for row in queues}), groups)
        tables += [Table("lag", lag), Table("waitingByTag", _waiting(spark, named, lag))]
        points = ((row["group"], f"{row['topic']}/{row['queue']}", row["lag"]) for row in lag if row["lag"] is not None)
        plots.append(Plot("Lag by queue", "bars", "messages", "topic/queue", series_of(points)))
    metrics = Metrics.of(queues)
    return Summary("backlog", {"messages": metrics.rows, "bytes": metrics.bytes}, tables, plots, metrics)


def _by_topic(queues: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each topic. `skew`: the fullest queue's messages, in averages of the queues that hold any."""
    found = folded(queues, ("topic",), _SUMS)
    for row in found:
        own = [each["messages"] for each in queues if each["topic"] == row["topic"]]
        row |= {"queues": len(own), "skew": round(max(own) * len(own) / sum(own), 2)}
    return found


def _waiting(spark: SparkSession, named: DataFrame, lag: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each group has not consumed, by tag: a second pass, of the groups that have been somewhere."""
    places = [(row["group"], row["topic"], row["broker"], row["queue"], row["committed"]) for row in lag if row["lag"]]
    if not places:
        return []
    at = spark.createDataFrame(places, "group string, topic string, broker string, queue int, committed bigint")
    left = named.join(functions.broadcast(at), ["topic", "broker", "queue"]).where("queueOffset >= committed")
    by = ["group", "topic", "tag"]
    return rows_of(grouped(left, by, *COUNTS).orderBy(*by))


def _with_share(queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each queue its percentage of the topic's messages: skew shows at once."""
    totals = {row["topic"]: row["messages"] for row in folded(queues, ("topic",), {"messages": sum})}
    return [row | {"sharePercent": round(100 * row["messages"] / totals[row["topic"]])} for row in queues]


def _lag(source: Source, topics: Sequence[str], groups: Sequence[str]) -> list[dict[str, Any]]:
    with Cluster(connection_options(net_part(source), Use.BATCH)) as cluster:
        queues = cluster.queues(topics)
        bounds = cluster.bounds(queues)
        committed = {group: cluster.committed(group, queues) for group in groups}
    return [
        {
            "group": group,
            **queue.as_row(),
            "committed": at,
            "end": bounds[queue].high,
            "lag": None if at is None else difference(bounds[queue].high, at),
        }
        for group in groups
        for queue in sorted(bounds)
        for at in [committed[group].get(queue)]
    ]
