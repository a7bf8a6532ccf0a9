"""How long messages take, from what clients with tracing switched on tell in RocketMQ's trace topic.

send: what the producer waited. store: from the producer's clock to the broker's, where the topics are read as well;
half of send otherwise. first delivery: from the send to the first listener of a group. consumption: what listeners
took. The clocks of several machines meet in store and first delivery: what is below 0 is counted as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession, functions

from ..model.message_trace import Consumed, ConsumeStarted, Sent
from ..model.names import TRACE_TOPIC
from ..protocol.trace import TraceError, decode_trace
from ..text.values import heading
from .report.grouping import grouped, rows_of
from .report.summary import Metrics, Plot, Summary, Table, series_of
from .run.messages import Source, messages

EVENTS = (
    "what string, id string, request string, timeMs bigint, topic string, group string, costMs bigint, "
    "success boolean, retries int, outcome string"
)
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_()}
_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in (each.split() for each in EVENTS.split(", "))])
_STAGES = {"sendMs": "send", "storeMs": "store", "deliveryMs": "firstDelivery", "consumeMs": "consumption"}
_PARTS = (50, 95, 99)


def events(bodies: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """Yield a row of `EVENTS` for each event; bodies that are no trace are left out (anybody may send there)."""
    for body in bodies:
        try:
            found = decode_trace(body)
        except TraceError:
            continue
        for one in found:
            match one:
                case Sent():
                    yield "sent", one.message_id, "", one.time_ms, one.topic, one.group, one.cost_ms, one.success, 0, ""
                case ConsumeStarted():
                    yield "begun", one.message_id, one.request_id, one.time_ms, "", one.group, 0, True, one.retries, ""
                case Consumed():
                    row = ("ended", one.message_id, one.request_id, one.time_ms, "", one.group, one.cost_ms)
                    yield *row, one.success, 0, one.outcome.name.lower().replace("_", " ")


def traced(
    spark: SparkSession, source: Source, since_ms: int | None = None, seen: Observation | None = None
) -> DataFrame:
    """Return the events of the trace topic as rows; `seen` gets the bytes of the bodies."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = (dict(zip(_SCHEMA.names, row, strict=True)) for row in events(batch.column(0).to_pylist()))
            yield pa.RecordBatch.from_pylist(list(rows), _SCHEMA)

    options = {"topic": TRACE_TOPIC, **source}
    frame = messages(spark, options, ("body",), since_ms=since_ms)
    if seen is not None:
        frame = frame.observe(seen, functions.sum(functions.length("body")).alias("bytes"))
    return frame.mapInArrow(decode, EVENTS)


def trace(
    spark: SparkSession, source: Source, *, topics: Sequence[str] = (), since_ms: int | None = None, slowest: int = 20
) -> Summary:
    """Report how long messages take, by the traces of `source`; `topics` are read too, for the time of the store."""
    seen = Observation("traces")
    found = traced(spark, source, since_ms, seen).persist()  # read once, used for each kind of event
    try:
        timed = _stages(found, _stored(spark, source, topics, since_ms)).persist()
        by_topic = _sums(timed.dropDuplicates(["id"]), ["topic"], "sendMs", "storeMs")
        by_group = _sums(timed.where("group IS NOT NULL"), ["topic", "group"], "deliveryMs", "consumeMs")
        worst = _slowest(timed, slowest)
        count = found.count()
        timed.unpersist()
    finally:
        found.unpersist()
    sent = sum(row["messages"] for row in by_topic)
    facts = {"messages": sent, "events": count, "store": "measured" if topics else "half of send"}
    found_rows = {"byTopic": by_topic, "byGroup": by_group, "slowest": worst}
    tables = [Table(title, rows, _lengths(rows)) for title, rows in found_rows.items()]
    plots = [_plot(by_topic, stage, "topic") for stage in ("send", "store")]
    plots += [_plot(by_group, stage, "topic", "group") for stage in ("firstDelivery", "consumption")]
    return Summary("trace", facts, tables, plots, Metrics(count, seen.get["bytes"] or 0))


def _stored(spark: SparkSession, source: Source, topics: Sequence[str], since_ms: int | None) -> DataFrame | None:
    if not topics:
        return None
    options = {**source, "topic": ",".join(topics)}
    frame = messages(spark, options, ("msgId", "storeTimestamp"), since_ms=since_ms)
    return grouped(frame.withColumnRenamed("msgId", "id"), ["id"], "min(unix_millis(storeTimestamp)) AS storedMs")


def _stages(found: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Return a row for each message and group that received it; `group` is null where none did."""
    sent = grouped(
        found.where("what = 'sent'"),
        ["id"],
        "first(topic) AS topic",
        "min(timeMs) AS sentMs",
        "max(costMs) AS sendMs",
        "min(success) AS isSent",
    )
    begun = found.where("what = 'begun'").select("id", "request", "group", "timeMs", "retries")
    ended = found.where("what = 'ended'").select("request", "costMs", "success")
    had = grouped(
        begun.join(ended, "request", "left"),
        ["id", "group"],
        "min(timeMs) AS firstMs",
        "max(costMs) AS consumeMs",
        "count(*) AS deliveries",
        "sum(CASE WHEN success THEN 0 ELSE 1 END) AS failed",
    )
    whole = sent.join(had, "id", "left")
    guessed = functions.expr("sentMs + sendMs div 2")
    whole = whole.withColumn("storedMs", guessed) if stored is None else whole.join(stored, "id", "left")
    return whole.selectExpr(
        "*",
        "if(storedMs IS NULL, NULL, greatest(storedMs - sentMs, 0)) AS storeMs",
        "if(firstMs IS NULL, NULL, greatest(firstMs - sentMs, 0)) AS deliveryMs",
    )


def _sums(frame: DataFrame, names: list[str], *stages: str) -> list[dict[str, Any]]:
    sums = ["count(*) AS messages"]
    if "group" in names:
        sums += ["sum(deliveries) AS deliveries", "sum(failed) AS failed"]
    else:
        sums.append("sum(CASE WHEN isSent THEN 0 ELSE 1 END) AS failed")
    for stage in stages:
        sums += [f"percentile_approx({stage}, {part / 100}) AS {_STAGES[stage]}P{part}Ms" for part in _PARTS]
        sums.append(f"max({stage}) AS {_STAGES[stage]}MaxMs")
    return rows_of(grouped(frame, names, *sums).orderBy(*names))


def _slowest(frame: DataFrame, most: int) -> list[dict[str, Any]]:
    names = ("id", "topic", "group", "sendMs", "storeMs", "deliveryMs", "consumeMs", "deliveries")
    shown = frame.selectExpr(*names, "greatest(coalesce(deliveryMs, 0) + coalesce(consumeMs, 0), sendMs) AS totalMs")
    return rows_of(shown.orderBy(functions.desc("totalMs"), "id").limit(most))


def _lengths(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in (rows[0] if rows else ()) if name.endswith("Ms")]


def _plot(rows: Sequence[Mapping[str, Any]], stage: str, *names: str) -> Plot:
    series = series_of(
        (f"p{part}", " ".join(row[name] for name in names), row[f"{stage}P{part}Ms"])
        for part in _PARTS
        for row in rows
        if row[f"{stage}P{part}Ms"] is not None
    )
    return Plot(f"Latency of {heading(stage)}", "bars", "ms", " and ".join(names), series)
