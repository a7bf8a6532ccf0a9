"""One set of messages against another: lost, doubled, differing, by unique id. Topics, archives, store files.

A replayed or redriven message counts as the one that it was made of (REPLAY_ID, REDRIVE_ID). One shuffle of ids and
hashes: bodies are read, not moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .report.summary import Metrics, Plot, Summary, Table
from .run.messages import chosen, messages, needed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "msgId", "keys", "tags", "body", "properties", "storeSize")
ID = "coalesce(properties['REPLAY_ID'], properties['REDRIVE_ID'], msgId)"
VERDICTS = ("equal", "lost", "doubled", "differing", "added")


def reconcile(
    spark: SparkSession,
    left: Mapping[str, str],
    right: Mapping[str, str],
    *,
    where: str = "",
    since_ms: int | None = None,
    until_ms: int | None = None,
    by: str = ID,
    examples: int = 20,
) -> Summary:
    """Return what of `left` is in `right`. `by` is Spark SQL for the id, `where` chooses on both sides."""
    from pyspark.sql import functions

    sides = [
        _side(spark, each, where, since_ms, until_ms, by).withColumn("side", functions.lit(number))
        for number, each in enumerate((left, right))
    ]
    judged = _judged(sides[0].unionByName(sides[1])).persist()
    try:
        sums = judged.groupBy("topic", "verdict").agg(
            functions.count("*").alias("messages"),
            functions.sum("leftCount").alias("left"),
            functions.sum("rightCount").alias("right"),
            functions.sum("bytes").alias("bytes"),
        )
        found = [row.asDict() for row in sums.orderBy("topic", "verdict").collect()]
        odd = judged.where("verdict <> 'equal'").orderBy("verdict", "topic", "id").limit(examples)
        shown = odd.select("verdict", "id", "topic", "leftCount", "rightCount", "place").collect()
    finally:
        judged.unpersist()
    return _summary(found, [row.asDict() for row in shown])


def _summary(found: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> Summary:
    counts = {verdict: sum(row["messages"] for row in found if row["verdict"] == verdict) for verdict in VERDICTS}
    facts = {"ids": sum(counts.values()), **counts, "agree": not any(counts[each] for each in VERDICTS[1:])}
    rows = [{name: value for name, value in row.items() if name != "bytes"} for row in found]
    series: dict[str, dict[str, float]] = {}
    for row in found:
        if row["verdict"] != "equal":
            series.setdefault(row["verdict"], {})[row["topic"]] = row["messages"]
    plot = Plot("What does not agree, by topic", "bars", "messages", "topic", series)
    read = Metrics(sum(row["left"] + row["right"] for row in found), sum(row["bytes"] or 0 for row in found))
    return Summary("reconcile", facts, [Table("by topic", rows), Table("examples", shown)], [plot], read)


def _side(
    spark: SparkSession, source: Mapping[str, str], where: str, since_ms: int | None, until_ms: int | None, by: str
) -> DataFrame:
    frame = chosen(messages(spark, source, needed(_COLUMNS, where), since_ms=since_ms, until_ms=until_ms), where)
    return frame.selectExpr(
        f"{by} AS id", "coalesce(properties['REPLAY_TOPIC'], topic) AS topic", "storeSize",
        "xxhash64(body, coalesce(keys, ''), coalesce(tags, '')) AS hash",
        "concat_ws('/', topic, brokerName, queueId, queueOffset) AS place",
    )  # fmt: skip


def _judged(both: DataFrame) -> DataFrame:
    """Return a row for each id. Doubled before differing: a second, other message of the same id is both."""
    from pyspark.sql import functions

    found = both.groupBy("id").agg(
        functions.min("topic").alias("topic"),
        functions.expr("count_if(side = 0) AS leftCount"),
        functions.expr("count_if(side = 1) AS rightCount"),
        functions.expr("min(hash) <> max(hash) AS isMixed"),
        functions.sum("storeSize").alias("bytes"),
        functions.min("place").alias("place"),
    )
    verdict = """CASE WHEN rightCount = 0 THEN 'lost' WHEN leftCount = 0 THEN 'added'
                 WHEN rightCount > leftCount THEN 'doubled' WHEN rightCount < leftCount THEN 'lost'
                 WHEN isMixed THEN 'differing' ELSE 'equal' END"""
    return found.withColumn("verdict", functions.expr(verdict))
