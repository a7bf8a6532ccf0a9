"""An archive or a topic, by time and by filter, to a topic again; as fast as told. At least once with Apache's brokers.

Each message says where it came from: properties REPLAY_TOPIC, REPLAY_OFFSET (broker/queue/offset) and REPLAY_ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .archive import read_archive
from .summary import Summary, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def replay(
    spark: SparkSession,
    source: Mapping[str, str],
    target: Mapping[str, str],
    *,
    archive: str = "",
    topic: str = "",
    since: str = "",
    until: str = "",
    where: str = "",
    rate: int = 0,
    dry_run: bool = False,
) -> Summary:
    """`source` are options of a read, `target` of a write with its topic; `rate` is messages a second.

    `since` and `until` are store times (2026-11-15 or with a time, UTC), `where` is Spark SQL on the columns of a read.
    """
    from pyspark.sql import functions

    if not target.get("topic"):
        raise ConfigError("topic: a replay needs one to write to")
    frame = _chosen(_read(spark, source, archive, topic), since, until, where)
    counted = frame.groupBy("topic").agg(functions.count("*").alias("messages")).orderBy("topic").collect()
    table = Table("from", [row.asDict() for row in counted])
    total = sum(row["messages"] for row in counted)
    facts = {"messages": total, "to": target["topic"]}
    if dry_run:
        return Summary("replay (dry run)", facts, [table])
    told = functions.map_from_arrays(
        functions.array(*(functions.lit(name) for name in ("REPLAY_TOPIC", "REPLAY_OFFSET", "REPLAY_ID"))),
        functions.array("topic", functions.concat_ws("/", "brokerName", "queueId", "queueOffset"), "msgId"),
    )
    kept = functions.map_filter("properties", lambda name, _: ~name.startswith("REPLAY_"))
    rows = frame.select(
        "body", "keys", "tags", "flag", functions.map_concat(kept, told).alias("properties"),
        functions.element_at("properties", "__SHARDINGKEY").alias("shardingKey"),
    )  # fmt: skip
    options = dict(target) | ({"maxMessagesPerSecond": str(rate)} if rate else {})
    rows = rows.coalesce(1) if rate else rows  # the rate is that of a task
    rows.write.format("rocketmq").mode("append").options(**options).save()
    return Summary("replay", facts, [table])


def _read(spark: SparkSession, source: Mapping[str, str], archive: str, topic: str) -> DataFrame:
    from pyspark.sql import functions

    if not archive:
        return spark.read.format("rocketmq").options(**source).load()
    found = read_archive(spark, archive)
    return found.where(functions.col("topic").isin(topic.split(","))) if topic else found


def _chosen(frame: DataFrame, since: str, until: str, where: str) -> DataFrame:
    from pyspark.sql import functions

    if since:
        frame = frame.where(functions.col("storeTimestamp") >= functions.lit(since).cast("timestamp"))
    if until:
        frame = frame.where(functions.col("storeTimestamp") < functions.lit(until).cast("timestamp"))
    return frame.where(where) if where else frame
