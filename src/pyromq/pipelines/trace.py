"""How long messages take, from what clients with tracing switched on tell in RocketMQ's trace topic.

send: what the producer waited. store: from the producer's clock to the broker's, where the topics are read as well;
half of send otherwise. first delivery: from the send to the first listener of a group. consumption: what listeners
took. The clocks of several machines meet in store and first delivery: what is below 0 is counted as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..model.message_trace import Consumed, ConsumeStarted, Sent
from ..model.names import TRACE_TOPIC
from ..protocol.trace import TraceError, decode_trace
from .report.summary import Metrics, Plot, Summary, Table
from .run.messages import messages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation, SparkSession

EVENTS = (
    "what string, id string, request string, timeMs bigint, topic string, group string, costMs bigint, "
    "success boolean, retries int, outcome string"
)
_NAMES = [each.split()[0] for each in EVENTS.split(", ")]
_STAGES = {"sendMs": "send", "storeMs": "store", "deliveryMs": "first delivery", "consumeMs": "consumption"}
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
    spark: SparkSession, source: Mapping[str, str], since_ms: int | None = None, seen: Observation | None = None
) -> DataFrame:
    """Return the events of the trace topic as rows; `seen` gets the bytes of the bodies."""
    import pyarrow as pa
    from pyspark.sql import functions

    types = [
        pa.string(),
        pa.string(),
        pa.string(),
        pa.int64(),
        pa.string(),
        pa.string(),
        pa.int64(),
        pa.bool_(),
        pa.int32(),
        pa.string(),
    ]

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = list(events(batch.column(0).to_pylist()))
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
            arrays = [pa.array(list(values), kind) for values, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, _NAMES)

    options = {"topic": TRACE_TOPIC, **source}
    frame = messages(spark, options, ("body",), since_ms=since_ms)
    if seen is not None:
        frame = frame.observe(seen, functions.sum(functions.length("body")).alias("bytes"))
    return frame.mapInArrow(decode, EVENTS)


def trace(
    spark: SparkSession,
    source: Mapping[str, str],
    *,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    slowest: int = 20,
) -> Summary:
    """Report how long messages take.

    `source` has the trace topic (RocketMQ's own unless named); `topics` are read too, for the time of the store.
    """
    from pyspark.sql import Observation

    seen = Observation("traces")
    found = traced(spark, source, since_ms, seen).persist()  # read once, used for each kind of event
    try:
        timed = _stages(found, _stored(spark, source, topics, since_ms)).persist()
        by_topic = [
            row.asDict() for row in _sums(timed.dropDuplicates(["id"]), ["topic"], "sendMs", "storeMs").collect()
        ]
        deliveries = timed.where("group IS NOT NULL")
        by_group = [row.asDict() for row in _sums(deliveries, ["topic", "group"], "deliveryMs", "consumeMs").collect()]
        worst = [row.asDict() for row in _slowest(timed, slowest).collect()]
        count = found.count()
        timed.unpersist()
    finally:
        found.unpersist()
    sent = sum(row["messages"] for row in by_topic)
    facts = {"messages": sent, "events": count, "store": "measured" if topics else "half of send"}
    tables = [Table("by topic", by_topic), Table("by group", by_group), Table("slowest", worst)]
    return Summary("trace", facts, tables, _plots(by_topic, by_group), Metrics(count, seen.get["bytes"] or 0))


def _stored(
    spark: SparkSession, source: Mapping[str, str], topics: Sequence[str], since_ms: int | None
) -> DataFrame | None:
    if not topics:
        return None
    options = {**source, "topic": ",".join(topics)}
    frame = messages(spark, options, ("msgId", "storeTimestamp"), since_ms=since_ms)
    return (
        frame.selectExpr("msgId AS id", "unix_millis(storeTimestamp) AS storedMs")
        .groupBy("id")
        .min("storedMs")
        .toDF("id", "storedMs")
    )


def _stages(found: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Return a row for each message and group that received it; `group` is null where none did."""
    from pyspark.sql import functions

    sent = found.where("what = 'sent'").groupBy("id").agg(
        functions.first("topic").alias("topic"),
        functions.min("timeMs").alias("sentMs"),
        functions.max("costMs").alias("sendMs"),
        functions.min("success").alias("isSent"),
    )  # fmt: skip
    begun = found.where("what = 'begun'").select("id", "request", "group", "timeMs", "retries")
    ended = found.where("what = 'ended'").select("request", "costMs", "success")
    had = begun.join(ended, "request", "left").groupBy("id", "group").agg(
        functions.min("timeMs").alias("firstMs"),
        functions.max("costMs").alias("consumeMs"),
        functions.count("*").alias("deliveries"),
        functions.sum(functions.expr("CASE WHEN success THEN 0 ELSE 1 END")).alias("failed"),
    )  # fmt: skip
    whole = sent.join(had, "id", "left")
    whole = whole.withColumn("storedMs", functions.expr("sentMs + sendMs div 2")) if stored is None else whole.join(
        stored, "id", "left"
    )  # fmt: skip
    return whole.withColumns(
        {
            "storeMs": functions.expr("if(storedMs IS NULL, NULL, greatest(storedMs - sentMs, 0))"),
            "deliveryMs": functions.expr("if(firstMs IS NULL, NULL, greatest(firstMs - sentMs, 0))"),
        }
    )


def _sums(frame: DataFrame, names: list[str], *stages: str) -> DataFrame:
    from pyspark.sql import functions

    columns = [functions.count("*").alias("messages")]
    if "group" in names:
        columns += [functions.sum("deliveries").alias("deliveries"), functions.sum("failed").alias("failed")]
    else:
        columns.append(functions.sum(functions.expr("CASE WHEN isSent THEN 0 ELSE 1 END")).alias("failed"))
    for stage in stages:
        columns += [
            functions.percentile_approx(stage, part / 100).alias(f"{_STAGES[stage]} p{part}") for part in _PARTS
        ]
        columns.append(functions.max(stage).alias(f"{_STAGES[stage]} max"))
    return frame.groupBy(*names).agg(*columns).orderBy(*names)


def _slowest(frame: DataFrame, most: int) -> DataFrame:
    from pyspark.sql import functions

    whole = functions.expr("greatest(coalesce(deliveryMs, 0) + coalesce(consumeMs, 0), sendMs)")
    shown = frame.withColumn("totalMs", whole).orderBy(functions.desc("totalMs"), "id").limit(most)
    return shown.select("id", "topic", "group", "sendMs", "storeMs", "deliveryMs", "consumeMs", "deliveries", "totalMs")


def _plots(by_topic: Sequence[Mapping[str, Any]], by_group: Sequence[Mapping[str, Any]]) -> list[Plot]:
    found = []
    for rows, stages, names in (
        (by_topic, ("send", "store"), ("topic",)),
        (by_group, ("first delivery", "consumption"), ("topic", "group")),
    ):
        for stage in stages:
            series = {
                f"p{part}": {
                    " ".join(row[name] for name in names): row[f"{stage} p{part}"]
                    for row in rows
                    if row[f"{stage} p{part}"] is not None
                }
                for part in _PARTS
            }
            found.append(Plot(f"Latency of {stage}", "bars", "ms", " and ".join(names), series))
    return found
