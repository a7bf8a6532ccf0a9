"""Dead letters of a group: which topics they come from, how old they are, and a selection of them sent again.

A dead letter stands in `%DLQ%GROUP` with the topic and id that it had: the report has topic, tag, times tried, who sent
it, age. The log has no reason; consumers with tracing switched on tell how their listeners ended, and from there it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.message import Property
from ..model.names import DLQ_PREFIX
from .report.grouping import Fold, folded
from .report.summary import Metrics, Plot, Summary, Table
from .run import checkpoint
from .run.messages import chosen, messages, stream
from .run.sending import StepSender, delivery, passed_on
from .run.streaming import run_stream
from .trace import traced

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ORIGIN = f"coalesce(properties['{Property.DLQ_ORIGIN_TOPIC}'], properties['{Property.RETRY_TOPIC}'], topic)"
_SHORT = "yyyy-MM-dd HH:mm:ss"
_SUMS: dict[str, Fold] = {
    "messages": sum,
    "tried": max,
    "oldest": min,
    "newest": max,
    "livedSeconds": lambda all_: max(each or 0 for each in all_),
}


def dead_letters(spark: SparkSession, source: Mapping[str, str], group: str) -> DataFrame:
    """Return the columns of a read, and `origin`: the topic that each message failed in."""
    return _with_origin(messages(spark, {"topic": f"{DLQ_PREFIX}{group}", **source}))


def report(spark: SparkSession, source: Mapping[str, str], group: str, where: str = "", *, traces: str = "") -> Summary:
    """Report by topic and tag how many, how often tried, from when to when; and by the hour that they died in.

    `traces` is a trace topic: with it also why.
    """
    found = chosen(dead_letters(spark, source, group), where)
    rows = [row.asDict() for row in _grouped(found).collect()]
    count, size = sum(row["messages"] for row in rows), sum(row["bytes"] for row in rows)
    tables = [
        Table("dead letters", folded(rows, ("origin", "tag"), _SUMS)),
        Table("senders", folded(rows, ("origin", "sender"), _SUMS)),
    ]
    if traces:
        tables.append(Table("why", _reasons(spark, source, group, found, traces)))
    hours = folded([row | {"hour": str(row["hour"])[:16]} for row in rows], ("hour",), {"messages": sum})
    plots = [
        Plot(
            "Dead letters by hour",
            "lines",
            "messages",
            "hour (UTC)",
            {group: {row["hour"]: row["messages"] for row in hours}},
        ),
        Plot("Dead letters by topic and tag", "bars", "messages", "topic and tag", {group: _named(tables[0].rows)}),
    ]
    facts = {"group": group, "messages": count, "bytes": size}
    return Summary("dlq", facts, tables, plots, Metrics(count, size))


def _grouped(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    keyed = frame.select(
        "origin",
        functions.expr("coalesce(tags, '') AS tag"),
        functions.expr("substring_index(bornHost, ':', 1) AS sender"),
        functions.date_trunc("hour", "storeTimestamp").alias("hour"),
        "reconsumeTimes", "storeSize", "storeTimestamp", "bornTimestamp",
    )  # fmt: skip
    return keyed.groupBy("origin", "tag", "sender", "hour").agg(
        functions.count("*").alias("messages"),
        functions.sum("storeSize").alias("bytes"),
        functions.max("reconsumeTimes").alias("tried"),
        functions.expr(f"date_format(min(storeTimestamp), '{_SHORT}') AS oldest"),
        functions.expr(f"date_format(max(storeTimestamp), '{_SHORT}') AS newest"),
        functions.expr("max(unix_timestamp(storeTimestamp) - unix_timestamp(bornTimestamp)) AS livedSeconds"),
    )


def _reasons(
    spark: SparkSession, source: Mapping[str, str], group: str, found: DataFrame, traces: str
) -> list[dict[str, Any]]:
    """Return how the group's listener ended with each message, by topic; null where no consumer traced it.

    A client that serves several groups may leave out which it was.
    """
    from pyspark.sql import functions

    failed = traced(spark, {**source, "topic": traces}).where("what = 'ended' AND NOT success")
    own = failed.where(functions.col("group").isin(group, "")).groupBy("id").agg(
        functions.max_by("outcome", "timeMs").alias("last"), functions.count("*").alias("failures")
    )  # fmt: skip
    why = found.select("origin", functions.col("msgId").alias("id")).join(own, "id", "left")
    sums = why.groupBy("origin", "last").agg(
        functions.count("*").alias("messages"), functions.sum("failures").alias("failures told")
    )
    return [row.asDict() for row in sums.orderBy("origin", "last").collect()]


def redrive(
    spark: SparkSession,
    source: Mapping[str, str],
    target: Mapping[str, str],
    group: str,
    folder: str,
    where: str = "",
    *,
    every: str = "",
    dry_run: bool = False,
) -> Summary:
    """Send a selection back to the topics where it failed, or to `target`'s topic. Dead letters stay until they expire.

    The checkpoint in `folder` remembers how far it came: the next run with it sends what has died since.
    """
    if dry_run:
        found = report(spark, source, group, where)
        return Summary("dlq redrive (dry run)", found.facts, found.tables)
    wanted = {"to": target.get("topic", ""), "group": group, "where": where}
    run = checkpoint.begin(spark, folder, wanted, {})["run"]
    frame = stream(spark, {"topic": f"{DLQ_PREFIX}{group}", **source})
    steps = StepSender(spark, folder, target, run)

    def pass_on(batch: DataFrame, number: int) -> None:
        rows = chosen(_with_origin(batch), where)
        steps.send(rows, number, lambda: _again(group, target.get("topic", "")))

    run_stream(frame.writeStream.queryName("pyromq-redrive"), pass_on, folder, every)
    total = steps.sent
    facts = {"group": group, "messages": total.rows, "checkpoint": folder, "delivery": delivery(total)}
    return Summary("dlq redrive", facts, [Table("sent", steps.rows)], metrics=Metrics(total.rows, total.bytes))


def _with_origin(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return frame.withColumn("origin", functions.expr(_ORIGIN))


def _again(group: str, goal: str) -> list[Column]:
    from pyspark.sql import functions

    topic = functions.lit(goal) if goal else functions.col("origin")
    return [topic.alias("topic"), *passed_on({"REDRIVE_GROUP": functions.lit(group), "REDRIVE_ID": "msgId"})]


def _named(rows: Any) -> dict[str, float]:
    return {f"{row['origin']} {row['tag']}".strip(): row["messages"] for row in rows}
