"""Messages by key, property or body, over archives, stores and topics that no index covers. A scan on all cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from pyspark.sql import Column, Observation, SparkSession, functions

from ..errors import ConfigError
from .report.summary import Metrics, Summary, Table
from .run.messages import Source, messages
from .run.plan import plan_of
from .run.times import Times

_SHOWN = 60  # characters of a body


def search(
    spark: SparkSession,
    source: Source,
    *,
    key: str = "",
    message_id: str = "",
    properties: Mapping[str, str] | None = None,
    body: str = "",
    body_pattern: str = "",
    where: str = "",
    most: int = 100,
    dry_run: bool = False,
    **times: Unpack[Times],
) -> Summary:
    """Return the first `most` messages by store time that fit all conditions. ConfigError if there is no condition."""
    conditions = _conditions(key, message_id, properties or {}, body, body_pattern, where)
    seen = Observation("read")
    frame = messages(spark, source, **times)
    frame = frame.observe(seen, *map(functions.expr, ("count(1) AS rows", "sum(storeSize) AS bytes")))
    for condition in conditions:
        frame = frame.where(condition)
    if dry_run:
        if body_pattern:  # Spark looks at a pattern with the first row
            spark.range(1).where(functions.col("id").cast("string").rlike(body_pattern)).count()
        return plan_of(spark, source, "search", **times)
    frame = frame.withColumn("storedMs", functions.expr("unix_millis(storeTimestamp)"))
    rows = frame.orderBy("storeTimestamp", "brokerName", "queueId", "queueOffset").limit(most + 1).collect()
    shown = [_row(row) for row in rows[:most]]
    read = seen.get
    facts = {"found": len(shown), "more": len(rows) > most, "searched": read["rows"]}
    return Summary("search", facts, [Table("messages", shown)], metrics=Metrics(read["rows"], read["bytes"] or 0))


def _conditions(
    key: str, message_id: str, properties: Mapping[str, str], body: str, body_pattern: str, where: str
) -> list[Column]:
    conditions: list[Column] = []
    if key:
        conditions.append(functions.array_contains(functions.split("keys", " "), key))
    if message_id:
        conditions.append(functions.col("msgId") == message_id)
    for name, value in properties.items():
        conditions.append(functions.element_at("properties", name) == value)
    if body:  # bytes: a body need not be text
        conditions.append(functions.contains(functions.col("body"), functions.lit(body.encode())))
    if body_pattern:  # a cast: what is no UTF-8 stays, where decode would fail
        conditions.append(functions.col("body").cast("string").rlike(body_pattern))
    if where:
        conditions.append(functions.expr(where))
    if not conditions:
        raise ConfigError("key, id, property, body, pattern, where: one of them is needed, to say what is looked for")
    return conditions


def _row(row: Any) -> dict[str, Any]:
    text = bytes(row.body or b"").decode("utf-8", "replace")
    return {
        "storedMs": row.storedMs,
        "topic": row.topic,
        "broker": row.brokerName,
        "queue": row.queueId,
        "offset": row.queueOffset,
        "id": row.msgId,
        "keys": row["keys"],
        "tags": row.tags,
        "body": text[:_SHOWN] + ("…" if len(text) > _SHOWN else ""),
    }
