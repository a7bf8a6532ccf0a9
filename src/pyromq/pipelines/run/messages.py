"""Messages for a pipeline from wherever they are: brokers, an archive or store files. One mapping says which.

{"nameServer": ..., "topic": ...}      options of the data source; a stream too
{"store": PATH, ...}                   the same, offline
{"archive": FOLDER, "topic": ...}      what `archive` kept; topics by `topic` or `topicPattern`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from pyspark.sql import DataFrame, SparkSession, functions

from ...errors import ConfigError
from ...spark.schema import COLUMNS
from ..archive import read_archive
from .times import Times

Source = Mapping[str, str]  # as above


def messages(
    spark: SparkSession, source: Source, columns: Sequence[str] = (), *, where: str = "", **times: Unpack[Times]
) -> DataFrame:
    """Return the messages that are there now, chosen by Spark SQL and by store time, the end not included.

    All columns of a read unless some are named; all with `where`, too, which may be about any.
    """
    columns = () if where else columns
    since_ms, until_ms = times.get("since_ms"), times.get("until_ms")
    if "archive" in source:
        check_archive_options(source)
        kept = of_topics(read_archive(spark, source["archive"]), source)
        return chosen(between(kept, since_ms, until_ms).select(*(columns or COLUMNS)), where)
    options = _limited(source, since_ms)
    if until_ms is not None:
        options["endingTimestamp"] = str(until_ms)
    return chosen(spark.read.format("rocketmq").schema(_ddl(columns)).options(**options).load(), where)


def check_archive_options(source: Source) -> None:
    """Raise ConfigError for an option that means nothing for an archive."""
    unknown = source.keys() - {"archive", "topic", "topicPattern", "nameServer"}
    if unknown:
        raise ConfigError(f"{sorted(unknown)[0]}: an archive takes topic and topicPattern alone; leave it out")


def stream(
    spark: SparkSession, source: Source, columns: Sequence[str] = (), *, where: str = "", since_ms: int | None = None
) -> DataFrame:
    """Read as a stream, from the earliest message unless the options or `since_ms` say otherwise."""
    options = _limited(source, since_ms)
    if not any(name in options for name in ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")):
        options["startingOffsets"] = "earliest"
    schema = _ddl(() if where else columns)
    return chosen(spark.readStream.format("rocketmq").schema(schema).options(**options).load(), where)


def chosen(frame: DataFrame, where: str) -> DataFrame:
    """Choose rows by Spark SQL on the columns; an empty text chooses all."""
    return frame.where(where) if where else frame


def _ddl(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} {COLUMNS[name][1]}" for name in columns or COLUMNS)


def _limited(source: Source, since_ms: int | None) -> dict[str, str]:
    options = dict(source)
    if since_ms is not None:
        options["startingTimestamp"] = str(since_ms)
        if "store" not in source:
            options["startingOffsetsByTimestampStrategy"] = "latest"  # a quiet queue has nothing to give
    return options


def of_topics(frame: DataFrame, source: Source) -> DataFrame:
    """Return the rows of the topics that `topic` or `topicPattern` names."""
    topic = functions.col("topic")
    if source.get("topic"):
        frame = frame.where(topic.isin([each.strip() for each in source["topic"].split(",")]))
    if source.get("topicPattern"):
        frame = frame.where(topic.rlike(f"^(?:{source['topicPattern']})$"))
    return frame


def between(frame: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """Choose rows by store time, the end not included; by `date` too if there is one: Spark leaves folders out then."""
    for time_ms, is_since in ((since_ms, True), (until_ms, False)):
        if time_ms is not None:
            at = functions.timestamp_millis(functions.lit(time_ms))
            stored = functions.col("storeTimestamp")
            frame = frame.where(stored >= at if is_since else stored < at)
            if "date" in frame.columns:
                day = functions.col("date")
                frame = frame.where(day >= functions.to_date(at) if is_since else day <= functions.to_date(at))
    return frame
