"""One set of messages against another: lost, doubled, differing, by unique id. Topics, archives, store files.

A replayed or redriven message counts as the one that it was made of (REPLAY_ID, REDRIVE_ID). One shuffle of ids and
hashes: bodies are read, not moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession, functions

from .report.grouping import grouped, rows_of
from .report.summary import Metrics, Plot, Summary, Table, series_of
from .run.messages import Source, messages
from .run.times import Times

_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "msgId", "keys", "tags", "body", "properties", "storeSize")
ID = "coalesce(properties['REPLAY_ID'], properties['REDRIVE_ID'], msgId)"
VERDICTS = ("equal", "lost", "doubled", "differing", "added")


def reconcile(
    spark: SparkSession,
    left: Source,
    right: Source,
    *,
    where: str = "",
    by: str = ID,
    examples: int = 20,
    **times: Unpack[Times],
) -> Summary:
    """Return what of `left` is in `right`. `by` is Spark SQL for the id, `where` chooses on both sides."""
    found_by_id = judged(compared(spark, left, right, where, by, **times)).persist()
    try:
        sums = ("count(*) AS messages", "sum(leftCount) AS `left`", "sum(rightCount) AS `right`", "sum(bytes) AS bytes")
        found = rows_of(grouped(found_by_id, ["topic", "verdict"], *sums).orderBy("topic", "verdict"))
        odd = found_by_id.where("verdict <> 'equal'").orderBy("verdict", "topic", "id").limit(examples)
        shown = rows_of(odd.select("verdict", "id", "topic", "leftCount", "rightCount", "place"))
    finally:
        found_by_id.unpersist()
    return _summary(found, shown)


def compared(
    spark: SparkSession, left: Source, right: Source, where: str, by: str, **times: Unpack[Times]
) -> DataFrame:
    """Return the messages of both sides, with what is compared of them. Nothing is read yet."""
    sides = [
        messages(spark, each, _COLUMNS, where=where, **times).selectExpr(
            f"{by} AS id", "coalesce(properties['REPLAY_TOPIC'], topic) AS topic", "storeSize",
            "xxhash64(body, coalesce(keys, ''), coalesce(tags, '')) AS hash",
            "concat_ws('/', topic, brokerName, queueId, queueOffset) AS place", f"{number} AS side",
        )
        for number, each in enumerate((left, right))
    ]  # fmt: skip
    return sides[0].unionByName(sides[1])


def _summary(found: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> Summary:
    counts = {verdict: sum(row["messages"] for row in found if row["verdict"] == verdict) for verdict in VERDICTS}
    facts = {"ids": sum(counts.values()), **counts, "agree": not any(counts[each] for each in VERDICTS[1:])}
    rows = [{name: value for name, value in row.items() if name != "bytes"} for row in found]
    series = series_of((row["verdict"], row["topic"], row["messages"]) for row in found if row["verdict"] != "equal")
    plot = Plot("What does not agree, by topic", "bars", "messages", "topic", series)
    read = Metrics(sum(row["left"] + row["right"] for row in found), sum(row["bytes"] or 0 for row in found))
    return Summary("reconcile", facts, [Table("byTopic", rows), Table("examples", shown)], [plot], read)


def judged(both: DataFrame, *more: str) -> DataFrame:
    """Return a row for each id, with `more` sums. Doubled before differing: a second, other message of one id is both.

    `both` has id, topic, side (0 left, 1 right), hash, storeSize and place.
    """
    found = grouped(
        both,
        ["id"],
        "min(topic) AS topic",
        "count_if(side = 0) AS leftCount",
        "count_if(side = 1) AS rightCount",
        "min(hash) <> max(hash) AS isMixed",
        "sum(storeSize) AS bytes",
        "min(place) AS place",
        *more,
    )
    verdict = """CASE WHEN rightCount = 0 THEN 'lost' WHEN leftCount = 0 THEN 'added'
                 WHEN rightCount > leftCount THEN 'doubled' WHEN rightCount < leftCount THEN 'lost'
                 WHEN isMixed THEN 'differing' ELSE 'equal' END"""
    return found.withColumn("verdict", functions.expr(verdict))
