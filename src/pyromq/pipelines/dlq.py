"""Dead letters of a group: which topics they come from, how old they are, and a selection of them sent again.

A dead letter stands in `%DLQ%GROUP` with the topic and id that it had. What went wrong is known to the consumer alone,
so the report has what the log has: topic, tag, times tried, age.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.message import Property
from ..model.names import DLQ_PREFIX
from .summary import Summary, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORIGIN = f"coalesce(properties['{Property.DLQ_ORIGIN_TOPIC}'], properties['{Property.RETRY_TOPIC}'], topic)"
_SCHEMA = (
    "topic string, brokerName string, queueId int, queueOffset bigint, msgId string, keys string, tags string, "
    "body binary, properties map<string,string>, flag int, storeTimestamp timestamp, reconsumeTimes int"
)


def dead_letters(spark: SparkSession, source: Mapping[str, str], group: str) -> DataFrame:
    """The columns of a read, and `origin`: the topic that each message failed in."""
    from pyspark.sql import functions

    options = {"topic": f"{DLQ_PREFIX}{group}", **source}
    frame = spark.read.format("rocketmq").schema(_SCHEMA).options(**options).load()
    return frame.withColumn("origin", functions.expr(_ORIGIN))


def report(spark: SparkSession, source: Mapping[str, str], group: str, where: str = "") -> Summary:
    """By topic and tag: how many, how often tried, from when to when."""
    from pyspark.sql import functions

    frame = _chosen(dead_letters(spark, source, group), where)
    found = frame.groupBy("origin", functions.expr("coalesce(tags, '') AS tag")).agg(
        functions.count("*").alias("messages"),
        functions.max("reconsumeTimes").alias("tried"),
        functions.expr("date_format(min(storeTimestamp), 'yyyy-MM-dd HH:mm:ss') AS oldest"),
        functions.expr("date_format(max(storeTimestamp), 'yyyy-MM-dd HH:mm:ss') AS newest"),
    )
    rows: list[dict[str, Any]] = [row.asDict() for row in found.orderBy("origin", "tag").collect()]
    facts = {"group": group, "messages": sum(row["messages"] for row in rows)}
    return Summary("dlq", facts, [Table("dead letters", rows)])


def redrive(
    spark: SparkSession, source: Mapping[str, str], target: Mapping[str, str], group: str, where: str = ""
) -> Summary:
    """A selection back to the topics where it failed, or to `target`'s topic. Dead letters stay until they expire."""
    from pyspark.sql import functions

    told = report(spark, source, group, where)
    frame = _chosen(dead_letters(spark, source, group), where)
    own = functions.map_filter("properties", lambda name, _: ~name.startswith("REDRIVE_"))
    marks = functions.create_map(
        functions.lit("REDRIVE_GROUP"), functions.lit(group), functions.lit("REDRIVE_ID"), "msgId"
    )
    goal = functions.lit(target["topic"]) if target.get("topic") else functions.col("origin")
    rows = frame.select(
        goal.alias("topic"), "body", "keys", "tags", "flag", functions.map_concat(own, marks).alias("properties")
    )
    rows.write.format("rocketmq").mode("append").options(**target).save()
    return Summary("dlq redrive", told.facts, told.tables)


def _chosen(frame: DataFrame, where: str) -> DataFrame:
    return frame.where(where) if where else frame
