"""Topics to Parquet, Delta or Iceberg, by topic and date, with a manifest of offsets: no gap, nothing twice, wherever
it is killed.

    ARCHIVE/data/batch=7/topic=orders/date=2026-11-16/part-....parquet   the rows of micro-batch 7
    ARCHIVE/delta/ or ARCHIVE/iceberg/                             instead of them: a table
    ARCHIVE/manifest/7.json                                        the offsets in it; it is there when the rows are
    ARCHIVE/checkpoint/                                            Spark's own

A batch that is repeated replaces its own rows unless it has its manifest; readers take the batches of manifests alone,
so half a batch is never seen. The folder may be on any file system that Spark writes to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession, functions

from ..errors import PyroError
from ..spark.read.offsets import from_json
from .lake import lake
from .lake.files import read_text
from .lake.lake import Lake
from .lake.manifest import gaps, held, kept, manifests, totals, write_manifest
from .report.summary import Summary, Table
from .run import checkpoint
from .run.plan import planned
from .run.streaming import run_stream

_TOPICS = ("topic", "topicPattern", "assign")
_FILTERS = ("tags", "sql")  # options of the source that leave messages out


def archive(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str,
    *,
    first: Sequence[str] = (),
    every: str = "",
    form: str = lake.PARQUET,
    catalog: str = "",
    table: str = "",
    compression: str = "zstd",
    dry_run: bool = False,
) -> Summary:
    """Archive what is there now, or with `every` (`10 seconds`) for ever. `source`: options of the data source.

    A new archive begins with the earliest messages unless the options say otherwise. Topics of `first` are kept before
    the others: `brokers.py` finds those whose messages go soon. `catalog` and `table` say where an Iceberg table is.
    """
    given = {"startingOffsets": "earliest", **source}
    lake.check(form, catalog, table)
    where = {name: value for name, value in (("catalog", catalog), ("table", table)) if value}
    settings = {"format": form, **where}
    before = {int(each["batch"]) for each in manifests(spark, folder)}
    if dry_run:  # by Spark's own offset log; nothing is written
        checkpoint.check(spark, folder, settings)
        checkpoint.check_whole(spark, folder, before)
        plan = planned(given, checkpoint.standing(spark, folder, before))
        return Summary("archive (dry run)", {**plan.facts, "folder": folder}, plan.tables)
    run = checkpoint.begin(spark, folder, settings)["run"]
    rows = Lake(spark, folder, form, run, compression, **where)
    checkpoint.check_whole(spark, folder, before)
    runs = [_of(given, first)] if first else []
    if any(given.get(name) for name in _TOPICS):
        runs.append(given)
    begun = _begun(spark, folder)
    if begun and not (runs and all(_covers(runs[0], topic) for topic in begun)):
        runs.insert(0, _of(given, begun))  # what was begun is finished, also if other topics are asked for now
    for each in runs:
        _run(spark, each, rows, every if each is given else "")
    return summary(spark, folder, before)


def _run(spark: SparkSession, given: Mapping[str, str], rows: Lake, every: str) -> None:
    frame = spark.readStream.format("rocketmq").options(**given).load()
    whole = not any(name.lower() in _FILTERS and value for name, value in given.items())
    keep = partial(keep_batch, rows, whole=whole)
    run_stream(frame.writeStream.queryName("pyromq-archive"), keep, rows.folder, every)


def keep_batch(rows: Lake, batch: DataFrame, number: int, *, whole: bool = True) -> None:
    """Write the rows, then the manifest that makes them count. A finished try stays: others may be reading it."""
    if read_text(rows.spark, f"{rows.folder}/manifest/{number}.json") is not None:
        return
    batch.persist()  # counted and written: one read of the brokers
    try:
        queues = held(batch)
        if queues:
            rows.write(batch.withColumn("date", functions.to_date("storeTimestamp")), number)
    finally:
        batch.unpersist()
    write_manifest(rows.spark, rows.folder, number, queues, whole=whole)


def read_archive(spark: SparkSession, folder: str) -> DataFrame:
    """Return the archived messages, with the columns of the source and `date`."""
    return open_archive(spark, folder).read(batches(spark, folder))


def batches(spark: SparkSession, folder: str) -> list[int]:
    """Return the numbers of the batches that hold something. PyroError if there is none."""
    numbers = [int(each["batch"]) for each in manifests(spark, folder) if each["queues"]]
    if not numbers:
        raise no_archive(folder)
    return numbers


def no_archive(folder: str) -> PyroError:
    return PyroError(f"{folder} holds no archive: it has no manifest. Make one by `pyromq pipeline archive`")


def open_archive(spark: SparkSession, folder: str) -> Lake:
    recorded = checkpoint.recorded_options(spark, folder)
    form = recorded.get("format", lake.PARQUET)
    lake.check(form)
    return Lake(spark, folder, form, catalog=recorded.get("catalog", ""), table=recorded.get("table", ""))


def summary(spark: SparkSession, folder: str, before: set[int] | None = None) -> Summary:
    """Return what the archive holds, and up to where brokers may delete. Batches of `before` are not of this run."""
    found = manifests(spark, folder)
    missing, _ = gaps(found)
    new = [each for each in found if int(each["batch"]) not in (before or ())]
    sums = totals(found)
    facts = {"messages": sums.rows, "bytes": sums.bytes, "batches": len(found), "gaps": len(missing), "folder": folder}
    tables = [Table("kept", kept(found))] + ([Table("missing", missing)] if missing else [])
    return Summary("archive", facts, tables, metrics=totals(new))


def _of(given: Mapping[str, str], topics: Sequence[str]) -> dict[str, str]:
    rest = {name: value for name, value in given.items() if name not in _TOPICS}
    return {**rest, "topic": ",".join(topics)}


def _covers(given: Mapping[str, str], topic: str) -> bool:
    if given.get("topicPattern"):
        return re.fullmatch(given["topicPattern"], topic) is not None
    if given.get("assign"):
        return topic in json.loads(given["assign"])
    return topic in [each.strip() for each in given.get("topic", "").split(",")]


def _begun(spark: SparkSession, folder: str) -> list[str]:
    """Return the topics of a batch that was planned and is not committed: Spark repeats it first."""
    at = checkpoint.standing(spark, folder)
    if at is None or at.pending is None:
        return []
    start, end = from_json(at.start), from_json(at.pending)
    return sorted({queue.topic for queue, until in end.items() if until > start.get(queue, 0)})
