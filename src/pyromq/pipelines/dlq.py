"""Dead letters of a group: which topics they come from, how old they are, and a selection of them sent again.

A dead letter stands in `%DLQ%GROUP` with the topic and id that it had: the report has topic, tag, times tried, who sent
it, age. Why it failed is counted from traces, where consumers write them: those of Java's clients have no reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions

from ..model.message import Property
from ..model.names import DLQ_PREFIX
from ..model.pop_names import retry_topic_v1, retry_topic_v2
from .report.grouping import AGES, COUNTS, Fold, folded, grouped, least, most, rows_of
from .report.summary import Metrics, Plot, Summary, Table, utc
from .run import checkpoint
from .run.messages import Source, chosen, messages, stream
from .run.plan import rest_of
from .run.sending import StepSender, delivery, passed_on
from .run.streaming import run_stream
from .trace import traced

_ORIGIN = f"coalesce(properties['{Property.DLQ_ORIGIN_TOPIC}'], properties['{Property.RETRY_TOPIC}'], topic)"
_SUMS: dict[str, Fold] = {
    "messages": sum,
    "tried": max,
    "oldestMs": least,
    "newestMs": most,
    "livedSeconds": lambda all_: max(each or 0 for each in all_),
}


def report(spark: SparkSession, source: Source, group: str, where: str = "", *, traces: str = "") -> Summary:
    """Report by topic and tag how many, how often tried, from when to when; by hour; with a trace topic also why."""
    found = dead_letters(spark, source, group, where)
    rows = rows_of(_grouped(found))
    metrics = Metrics.of(rows)
    tables = [
        Table("deadLetters", folded(rows, ("origin", "tag"), _SUMS)),
        Table("senders", folded(rows, ("origin", "sender"), _SUMS)),
    ]
    if traces:
        tables.append(Table("why", _reasons(spark, source, group, found, traces)))
    hours = folded(rows, ("hourMs",), {"messages": sum})
    by_hour = {utc(row["hourMs"])[:16]: row["messages"] for row in hours}
    by_tag = {f"{row['origin']} {row['tag']}".strip(): row["messages"] for row in tables[0].rows}
    plots = [
        Plot("Dead letters by hour", "lines", "messages", "hour (UTC)", {group: by_hour}),
        Plot("Dead letters by topic and tag", "bars", "messages", "topic and tag", {group: by_tag}),
    ]
    facts = {"group": group, "messages": metrics.rows, "bytes": metrics.bytes}
    return Summary("dlq", facts, tables, plots, metrics)


def dead_letters(spark: SparkSession, source: Source, group: str, where: str) -> DataFrame:
    """Return those that are chosen, with the columns of a read and `origin`."""
    return chosen(_with_origin(messages(spark, {"topic": f"{DLQ_PREFIX}{group}", **source}), group), where)


def _grouped(frame: DataFrame) -> DataFrame:
    by = {
        "origin": "origin",
        "tag": "coalesce(tags, '')",
        "sender": "substring_index(bornHost, ':', 1)",
        "hourMs": "coalesce(unix_millis(date_trunc('hour', storeTimestamp)), 0)",
    }
    return grouped(
        frame.withColumns({name: functions.expr(sql) for name, sql in by.items()}),
        list(by),
        *COUNTS,
        "max(reconsumeTimes) AS tried",
        *AGES,
        "max(unix_timestamp(storeTimestamp) - unix_timestamp(bornTimestamp)) AS livedSeconds",
    )


def _reasons(spark: SparkSession, source: Source, group: str, found: DataFrame, traces: str) -> list[dict[str, Any]]:
    """Return how the group's listener ended with each message, by topic; null where no consumer traced it."""
    failed = traced(spark, {**source, "topic": traces}).where("what = 'ended' AND NOT success")
    own = failed.where(functions.col("group").isin(group, ""))  # a client of several groups may leave out which
    last = grouped(own, ["id"], "max_by(outcome, timeMs) AS last", "count(*) AS failures")
    why = found.select("origin", functions.col("msgId").alias("id")).join(last, "id", "left")
    sums = grouped(why, ["origin", "last"], "count(*) AS messages", "sum(failures) AS tracedFailures")
    return rows_of(sums.orderBy("origin", "last"))


def redrive(
    spark: SparkSession,
    source: Source,
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
    wanted = {"to": target.get("topic", ""), "group": group, "where": where}
    if dry_run:
        if folder:
            checkpoint.check(spark, folder, wanted)
        at = checkpoint.standing(spark, folder) if folder else None
        rest = rest_of({"topic": f"{DLQ_PREFIX}{group}", **source}, at)
        found = report(spark, rest, group, where)
        return Summary("dlq redrive (dry run)", found.facts, found.tables)
    dead_letters(spark, source, group, where)  # refused before anything is written
    run = checkpoint.begin(spark, folder, wanted)["run"]
    frame = stream(spark, {"topic": f"{DLQ_PREFIX}{group}", **source})
    steps = StepSender(spark, folder, target, run)

    def pass_on(batch: DataFrame, number: int) -> None:
        rows = chosen(_with_origin(batch, group), where)
        steps.send(rows, number, lambda: _again(group, target.get("topic", "")))

    run_stream(frame.writeStream.queryName("pyromq-redrive"), pass_on, folder, every)
    total = steps.sent
    facts = {"group": group, "messages": total.rows, "checkpoint": folder, "delivery": delivery(total)}
    return Summary("dlq redrive", facts, [Table("sent", steps.rows)], metrics=Metrics(total.rows, total.bytes))


def _with_origin(frame: DataFrame, group: str) -> DataFrame:
    """Add `origin`, the topic that each message was sent to; one that was popped names the retry topic it died in."""
    named = functions.expr(_ORIGIN)
    own = retry_topic_v1("", group), retry_topic_v2("", group)
    was_popped = named.startswith(own[0]) | named.startswith(own[1])
    sent_to = functions.expr(f"substring({_ORIGIN}, {len(own[0]) + 1})")
    return frame.withColumn("origin", functions.when(was_popped, sent_to).otherwise(named))


def _again(group: str, goal: str) -> list[Column]:
    topic = functions.lit(goal) if goal else functions.col("origin")
    return [topic.alias("topic"), *passed_on({"REDRIVE_GROUP": functions.lit(group), "REDRIVE_ID": "msgId"})]
