"""The Parquet files of one batch, as tables of Delta and Iceberg take them in: path, size, rows, least and most values.

Spark's tasks read the footers and a few columns; nothing is read by the driver, wherever the files are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions

_JUDGED = ("topic", "date", "queueId", "queueOffset", "storeTimestamp", "batch")  # what people look for


class NewFile(NamedTuple):
    """`path` from the table's folder on; `least` and `most` by column, of columns that are never null."""

    path: str
    size: int
    modified_ms: int
    rows: int
    least: dict[str, Any]
    most: dict[str, Any]


def write_files(rows: DataFrame, place: str, batch: int, compression: str) -> None:
    """Write the files of a batch in place of what an earlier try left.

    A file has one topic and date, and their names stand in no path: some would have to be escaped, and readers differ
    in how they take that back.
    """
    parts = rows.withColumn("part", functions.xxhash64("topic", "date"))
    write_parquet(parts, f"{place}/batch={batch}", compression, "part")


def write_parquet(rows: DataFrame, folder: str, compression: str, *by: str) -> None:
    """Write the rows in place of what is there. Bodies do not repeat: a dictionary of them only costs time."""
    writer = rows.write.mode("overwrite").option("compression", compression).partitionBy(*by)
    writer.option("parquet.enable.dictionary#body", "false").parquet(folder)


def new_files(spark: SparkSession, place: str, batch: int) -> list[NewFile]:
    folder = f"batch={batch}"
    seen = [f"_metadata.{name}" for name in ("file_path", "file_size", "file_modification_time")]
    frame = spark.read.parquet(f"{place}/{folder}").select(*seen, *_JUDGED)
    found = frame.groupBy("file_path", "file_size", "file_modification_time").agg(
        functions.count("*").alias("rows"),
        *(functions.min(name).alias(f"least_{name}") for name in _JUDGED),
        *(functions.max(name).alias(f"most_{name}") for name in _JUDGED),
    )
    return [_file(row.asDict(), folder) for row in found.orderBy("file_path").collect()]


def _file(row: dict[str, Any], folder: str) -> NewFile:
    within = row["file_path"].rpartition(f"/{folder}/")[2]
    return NewFile(
        path=f"{folder}/{within}",
        size=row["file_size"],
        modified_ms=round(row["file_modification_time"].timestamp() * 1000),
        rows=row["rows"],
        least={name: row[f"least_{name}"] for name in _JUDGED},
        most={name: row[f"most_{name}"] for name in _JUDGED},
    )
