"""Topics to Parquet, Delta or Iceberg, by topic and date, with a manifest of offsets: no gap, nothing twice, wherever
it is killed.

    ARCHIVE/data/batch=7/topic=orders/date=2026-11-16/part-....parquet   the rows of micro-batch 7 (or delta/, iceberg/)
    ARCHIVE/manifest/7.json                                        the offsets in it; it is there when the rows are
    ARCHIVE/checkpoint/                                            Spark's own

A batch that is repeated replaces its own rows and then its own manifest; readers take the batches of manifests alone,
so half a batch is never seen. The folder may be on any file system that Spark writes to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import PyroError
from ..spark.offsets import Offsets, from_json
from . import checkpoint, lake
from .files import read_texts
from .lake import Lake
from .manifest import gaps, held, kept, manifests, total, write_manifest
from .plan import planned
from .streaming import run_stream
from .summary import Metrics, Summary, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def archive(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str,
    *,
    first: Sequence[str] = (),
    every: str = "",
    form: str = lake.PARQUET,
    compression: str = "zstd",
    dry_run: bool = False,
) -> Summary:
    """What is there now, or with `every` (`10 seconds`) for ever. `source`: options of the data source.

    A new archive begins with the earliest messages unless the options say otherwise. Topics of `first` are kept before
    the others: `expiring.py` finds those whose messages go soon.
    """
    given = {"startingOffsets": "earliest", **source}
    lake.check(spark, form)
    if dry_run:
        return _waiting(spark, given, folder)
    run = checkpoint.begin(spark, folder, {"format": form}, {})["run"]
    rows = Lake(spark, folder, form, run, compression)
    before = {int(each["batch"]) for each in manifests(spark, folder)}
    if first:
        _run(spark, {**_without_topics(given), "topic": ",".join(first)}, rows, "")
    if any(name in given for name in ("topic", "topicPattern", "assign")):
        _run(spark, given, rows, every)
    return summary(spark, folder, before)


def _run(spark: SparkSession, given: Mapping[str, str], rows: Lake, every: str) -> None:
    frame = spark.readStream.format("rocketmq").options(**given).load()

    def keep(batch: DataFrame, number: int) -> None:
        keep_batch(rows, batch, number)

    run_stream(frame.writeStream.queryName("pyromq-archive").foreachBatch(keep), rows.folder, every)


def keep_batch(rows: Lake, batch: DataFrame, number: int) -> None:
    """Rows first, then the manifest that makes them count. Both replace what an earlier try left."""
    from pyspark.sql import functions

    batch.persist()  # counted and written: one read of the brokers
    try:
        queues = held(batch)
        if queues:
            rows.write(batch.withColumn("date", functions.to_date("storeTimestamp")), number)
    finally:
        batch.unpersist()
    write_manifest(rows.spark, rows.folder, number, queues)


def read_archive(spark: SparkSession, folder: str) -> DataFrame:
    """The archived messages, with the columns of the source and `date`."""
    return open_archive(spark, folder).read(batches(spark, folder))


def batches(spark: SparkSession, folder: str) -> list[int]:
    """Numbers of the batches that hold something. PyroError if there is none."""
    numbers = [int(each["batch"]) for each in manifests(spark, folder) if each["queues"]]
    if not numbers:
        raise PyroError(f"{folder} holds no archive: it has no manifest. Make one by `pyromq pipeline archive`")
    return numbers


def open_archive(spark: SparkSession, folder: str) -> Lake:
    told = checkpoint.told(spark, folder)
    form = told.get("format", lake.PARQUET)
    lake.check(spark, form)
    return Lake(spark, folder, form)


def summary(spark: SparkSession, folder: str, before: set[int] | None = None) -> Summary:
    """What the archive holds: messages by queue, gaps, and up to where brokers may delete. Batches of `before` are not
    of this run."""
    found = manifests(spark, folder)
    missing, _ = gaps(found)
    new = [each for each in found if int(each["batch"]) not in (before or ())]
    facts = {
        "messages": total(found, "messages"),
        "bytes": total(found, "bytes"),
        "batches": len(found),
        "gaps": len(missing),
        "folder": folder,
    }
    tables = [Table("kept", kept(found))] + ([Table("missing", missing)] if missing else [])
    return Summary("archive", facts, tables, metrics=Metrics(total(new, "messages"), total(new, "bytes")))


def _without_topics(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in ("topic", "topicPattern", "assign")}


def _waiting(spark: SparkSession, given: Mapping[str, str], folder: str) -> Summary:
    """What a run would take, by Spark's own offset log; nothing is written."""
    told = planned(given, begin=_logged(spark, folder))
    return Summary("archive (dry run)", {**told.facts, "folder": folder}, told.tables)


def _logged(spark: SparkSession, folder: str) -> Offsets:
    """Where the last planned batch of the checkpoint ends; nothing if there is none."""
    texts = read_texts(spark, f"{folder}/checkpoint/offsets", "", named=True)
    numbers = {int(name): text for name, text in texts if name.isdigit()}
    if not numbers:
        return {}
    return from_json(json.loads(numbers[max(numbers)].splitlines()[-1]))
