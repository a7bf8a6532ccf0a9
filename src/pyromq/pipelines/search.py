"""Messages by key, property or body, over archives, stores and topics that no index covers. A scan on all cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .report.summary import Metrics, Summary, Table
from .run.messages import chosen, messages

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SHOWN = 60  # characters of a body


def search(
    spark: SparkSession,
    source: Mapping[str, str],
    *,
    key: str = "",
    message_id: str = "",
    properties: Mapping[str, str] | None = None,
    body: str = "",
    body_pattern: str = "",
    where: str = "",
    since_ms: int | None = None,
    until_ms: int | None = None,
    most: int = 100,
) -> Summary:
    """Return the first `most` messages by store time that fit all conditions."""
    from pyspark.sql import Observation, functions

    frame = messages(spark, source, since_ms=since_ms, until_ms=until_ms)
    seen = Observation("read")
    frame = frame.observe(
        seen, functions.count(functions.lit(1)).alias("rows"), functions.sum("storeSize").alias("bytes")
    )
    found = matching(
        frame, key=key, message_id=message_id, properties=properties, body=body, body_pattern=body_pattern, where=where
    )
    rows = found.orderBy("storeTimestamp", "brokerName", "queueId", "queueOffset").limit(most + 1).collect()
    shown = [_row(row) for row in rows[:most]]
    read = seen.get
    facts = {"found": len(shown), "more": len(rows) > most, "searched": read["rows"]}
    return Summary("search", facts, [Table("messages", shown)], metrics=Metrics(read["rows"], read["bytes"] or 0))


def matching(
    frame: DataFrame,
    *,
    key: str = "",
    message_id: str = "",
    properties: Mapping[str, str] | None = None,
    body: str = "",
    body_pattern: str = "",
    where: str = "",
) -> DataFrame:
    """Return the rows that fit all conditions. ConfigError if there is no condition."""
    from pyspark.sql import functions

    text = functions.col("body").cast("string")  # what is no UTF-8 stays, where decode would fail
    conditions: list[Column] = []
    if key:
        conditions.append(functions.array_contains(functions.split("keys", " "), key))
    if message_id:
        conditions.append(functions.col("msgId") == message_id)
    for name, value in (properties or {}).items():
        conditions.append(functions.element_at("properties", name) == value)
    if body:  # bytes: a body need not be text
        conditions.append(functions.contains(functions.col("body"), functions.lit(body.encode())))
    if body_pattern:
        conditions.append(text.rlike(body_pattern))
    if not conditions and not where:
        raise ConfigError("key, id, property, body, pattern, where: one of them is needed, to say what is looked for")
    for condition in conditions:
        frame = frame.where(condition)
    return chosen(frame, where)


def _row(row: Any) -> dict[str, Any]:
    text = bytes(row.body or b"").decode("utf-8", "replace")
    return {
        "stored": row.storeTimestamp.isoformat(sep=" ", timespec="milliseconds"),
        "topic": row.topic,
        "broker": row.brokerName,
        "queue": row.queueId,
        "offset": row.queueOffset,
        "id": row.msgId,
        "keys": row["keys"],
        "tags": row.tags,
        "body": text[:_SHOWN] + ("…" if len(text) > _SHOWN else ""),
    }
