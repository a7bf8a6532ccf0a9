"""Counts, rates, sizes and distinct keys by window of store time, topic and tag: once over what is there, or as a
stream that keeps its numbers in Parquet and goes on after a kill with what it had.

A stream gives each window again whenever it has grown; `windows` takes the last of each: a repeated batch counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import PyroError
from .lake.files import read_text, read_texts, write_text
from .report.summary import Metrics, Plot, Summary, Table
from .run import checkpoint
from .run.messages import chosen, messages, needed, stream
from .run.streaming import run_stream
from .run.times import interval, span_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("topic", "tags", "keys", "storeTimestamp", "storeSize")
_NAMES = ["window", "topic", "tag"]


def analytics(
    spark: SparkSession,
    source: Mapping[str, str],
    *,
    window: str = "1m",
    where: str = "",
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Summary:
    """Count in one pass what `source` has now."""
    frame = chosen(messages(spark, source, needed(_COLUMNS, where), since_ms=since_ms, until_ms=until_ms), where)
    return _summary(_grouped(frame, window, exact=True), window)


def analytics_stream(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str,
    *,
    window: str = "1m",
    late: str = "10m",
    where: str = "",
    every: str = "",
) -> Summary:
    """Count what is there now, or with `every` for ever.

    A message that comes later than `late` after its window is not counted.
    """
    settings = {"source": checkpoint.which(source), "window": window, "late": late, "where": where}
    checkpoint.begin(spark, folder, settings, {})
    checkpoint.check_whole(spark, folder, _numbers(spark, folder))
    frame = chosen(stream(spark, source, needed(_COLUMNS, where)), where).withWatermark(
        "storeTimestamp", interval("late", late)
    )

    def keep(batch: DataFrame, number: int) -> None:
        if read_text(spark, f"{folder}/manifest/{number}.json") is None:
            batch.write.mode("overwrite").parquet(f"{folder}/data/batch={number}")
            write_text(spark, f"{folder}/manifest/{number}.json", "{}")
        else:  # others may be reading it; the state of the stream is still made
            batch.write.format("noop").mode("append").save()

    sink = _grouped(frame, window, exact=False).writeStream.queryName("pyromq-analytics").outputMode("update")
    run_stream(sink, keep, folder, every)
    return _summary(windows(spark, folder), window)


def windows(spark: SparkSession, folder: str) -> DataFrame:
    """Return the state of each window after the last whole batch of a stream."""
    from pyspark.sql import functions

    numbers = _numbers(spark, folder)
    if not numbers:
        raise PyroError(f"{folder} holds no windows: it has no manifest. `pyromq pipeline analytics --to` makes them")
    paths = [f"{folder}/data/batch={number}" for number in numbers]
    frame = spark.read.option("basePath", f"{folder}/data").parquet(*paths)
    values = [name for name in frame.columns if name not in (*_NAMES, "batch")]
    last = functions.max_by(functions.struct(*values), "batch").alias("last")
    return frame.groupBy(*_NAMES).agg(last).select(*_NAMES, *(f"last.{name}" for name in values))


def _numbers(spark: SparkSession, folder: str) -> list[int]:
    return [int(name.split(".")[0]) for name, _ in read_texts(spark, f"{folder}/manifest", ".json", named=True)]


def _grouped(frame: DataFrame, window: str, *, exact: bool) -> DataFrame:
    """Group the messages. `exact` counts distinct keys one by one; a stream keeps a sketch instead."""
    from pyspark.sql import functions

    seconds = span_s("window", window)
    by = functions.window("storeTimestamp", interval("window", window)).alias("window")
    distinct = functions.count_distinct("keys") if exact else functions.approx_count_distinct("keys")
    found = frame.groupBy(by, "topic", functions.expr("coalesce(tags, '') AS tag")).agg(
        functions.count("*").alias("messages"),
        functions.sum("storeSize").alias("bytes"),
        functions.max("storeSize").alias("largest"),
        distinct.alias("keys"),
    )
    rate = functions.round(functions.col("messages") / seconds, 3).alias("perSecond")
    return found.select("window.start", "topic", "tag", "messages", "bytes", "largest", "keys", rate).withColumnRenamed(
        "start", "window"
    )


def _summary(frame: DataFrame, window: str) -> Summary:
    rows = [_row(row.asDict()) for row in frame.orderBy(*_NAMES).collect()]
    messages_, size = sum(row["messages"] for row in rows), sum(row["bytes"] for row in rows)
    series: dict[str, dict[str, float]] = {}
    sizes: dict[str, dict[str, float]] = {}
    for row in rows:
        for found, name in ((series, "messages"), (sizes, "bytes")):
            points = found.setdefault(row["topic"], {})
            points[row["window"]] = points.get(row["window"], 0) + row[name]
    plots = [
        Plot(f"Messages per {window}", "lines", "messages", "begin of the window (UTC)", series),
        Plot(f"Bytes per {window}", "lines", "bytes", "begin of the window (UTC)", sizes),
    ]
    facts = {"messages": messages_, "bytes": size, "windows": len({row["window"] for row in rows}), "window": window}
    return Summary("analytics", facts, [Table("by window", rows)], plots, Metrics(messages_, size))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"window": row["window"].strftime("%Y-%m-%d %H:%M:%S")}
