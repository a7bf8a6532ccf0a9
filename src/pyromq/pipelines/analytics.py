"""Counts, rates, sizes and distinct keys by window of store time, topic and tag: once over what is there, or as a
stream that keeps its numbers in Parquet and goes on after a kill with what it had.

A stream gives each window again whenever it has grown; `windows` takes the last of each: a repeated batch counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession, functions

from ..errors import PyroError
from .lake.files import read_text, read_texts, write_text
from .report.grouping import COUNTS, folded, grouped, rows_of
from .report.summary import Metrics, Plot, Summary, Table, series_of, utc
from .run import checkpoint
from .run.messages import Source, messages, stream
from .run.plan import plan_of
from .run.streaming import run_stream
from .run.times import Times, interval, span_s

_COLUMNS = ("topic", "tags", "keys", "storeTimestamp", "storeSize")
_NAMES = ["window", "topic", "tag"]


def analytics(
    spark: SparkSession,
    source: Source,
    *,
    window: str = "1m",
    where: str = "",
    dry_run: bool = False,
    **times: Unpack[Times],
) -> Summary:
    """Count in one pass what `source` has now."""
    frame = messages(spark, source, _COLUMNS, where=where, **times)
    windowed = _by_window(frame, window, "count(DISTINCT keys)")
    return plan_of(spark, source, "analytics", **times) if dry_run else _summary(windowed, window)


def analytics_stream(
    spark: SparkSession,
    source: Source,
    folder: str,
    *,
    window: str = "1m",
    late: str = "10m",
    where: str = "",
    every: str = "",
    dry_run: bool = False,
) -> Summary:
    """Count what is there now, or with `every` for ever, without messages that come later than `late` after theirs."""
    settings = {"source": checkpoint.which(source), "window": window, "late": late, "where": where}
    frame = stream(spark, source, _COLUMNS, where=where).withWatermark("storeTimestamp", interval("late", late))
    windowed = _by_window(frame, window, "approx_count_distinct(keys)")  # a stream keeps a sketch of the keys
    (checkpoint.check if dry_run else checkpoint.begin)(spark, folder, settings)
    checkpoint.check_whole(spark, folder, _numbers(spark, folder))
    if dry_run:
        return plan_of(spark, source, "analytics", checkpoint.standing(spark, folder))

    def keep(batch: DataFrame, number: int) -> None:
        if read_text(spark, f"{folder}/manifest/{number}.json") is None:
            batch.write.mode("overwrite").parquet(f"{folder}/data/batch={number}")
            write_text(spark, f"{folder}/manifest/{number}.json", "{}")
        else:  # others may be reading it; the state of the stream is still made
            batch.write.format("noop").mode("append").save()

    run_stream(windowed.writeStream.queryName("pyromq-analytics").outputMode("update"), keep, folder, every)
    return _summary(windows(spark, folder), window)


def windows(spark: SparkSession, folder: str) -> DataFrame:
    """Return the state of each window after the last whole batch of a stream."""
    numbers = _numbers(spark, folder)
    if not numbers:
        raise PyroError(
            f"{folder} holds no windows: it has no manifest. `pyromq pipeline analytics --checkpoint` makes them"
        )
    paths = [f"{folder}/data/batch={number}" for number in numbers]
    frame = spark.read.option("basePath", f"{folder}/data").parquet(*paths)
    values = [name for name in frame.columns if name not in (*_NAMES, "batch")]
    last = functions.max_by(functions.struct(*values), "batch").alias("last")
    return frame.groupBy(*_NAMES).agg(last).select(*_NAMES, *(f"last.{name}" for name in values))


def _numbers(spark: SparkSession, folder: str) -> list[int]:
    return [int(name.split(".")[0]) for name, _ in read_texts(spark, f"{folder}/manifest", ".json")]


def _by_window(frame: DataFrame, window: str, distinct: str) -> DataFrame:
    by = functions.window("storeTimestamp", interval("window", window)).alias("window")
    sums = (*COUNTS, "max(storeSize) AS largest", f"{distinct} AS keys")
    found = grouped(frame, [by, "topic", functions.expr("coalesce(tags, '') AS tag")], *sums)
    rate = functions.round(functions.col("messages") / span_s("window", window), 3).alias("perSecond")
    start = functions.col("window.start").alias("window")
    return found.select(start, "topic", "tag", "messages", "bytes", "largest", "keys", rate)


def _summary(frame: DataFrame, window: str) -> Summary:
    begin = functions.unix_millis("window").alias("beginMs")
    rows = rows_of(frame.orderBy(*_NAMES).select(begin, *(name for name in frame.columns if name != "window")))
    metrics = Metrics.of(rows)
    plots = [_plot(f"Messages per {window}", rows, "messages"), _plot(f"Bytes per {window}", rows, "bytes")]
    count = len({row["beginMs"] for row in rows})
    facts = {
        "messages": metrics.rows,
        "bytes": metrics.bytes,
        "windows": count,
        "windowSeconds": span_s("window", window),
    }
    return Summary("analytics", facts, [Table("byWindow", rows)], plots, metrics)


def _plot(title: str, rows: Sequence[Mapping[str, Any]], name: str) -> Plot:
    found = folded(rows, ("beginMs", "topic"), {name: sum})
    series = series_of((row["topic"], utc(row["beginMs"]), row[name]) for row in found)
    return Plot(title, "lines", name, "begin of the window (UTC)", series)
