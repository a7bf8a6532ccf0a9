"""The formats that an archive may have, each with a write that may be repeated: Parquet, Delta, Iceberg.

Parquet replaces the batch's own folder. Delta and Iceberg remember which batch each commit was, and leave out a repeat.
Their classes are not part of Spark: without them a run is refused with the package to add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import PyroError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
_CATALOG = "pyromq_archive"
_NEEDED = {
    DELTA: ("io.delta.sql.DeltaSparkSessionExtension", "io.delta:delta-spark_2.13:VERSION"),
    ICEBERG: (
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION",
    ),
}


def session_settings(form: str) -> dict[str, str]:
    """What a session must be started with, besides the package."""
    if form == DELTA:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    if form == ICEBERG:
        return {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
    return {}


def check(spark: SparkSession, form: str) -> None:
    """PyroError says which package to add."""
    if form not in _NEEDED:
        return
    name, package = _NEEDED[form]
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)  # type: ignore[union-attr]
    except Py4JError:
        raise PyroError(
            f"format = {form!r}: Spark has no {name}. Add the package that fits Spark {spark.version}: "
            f"--conf spark.jars.packages={package}, or write --format parquet"
        ) from None


@dataclass(frozen=True, slots=True)
class Lake:
    """The rows of one archive; `run` is its name in the commits of tables."""

    spark: SparkSession
    folder: str
    form: str = PARQUET
    run: str = ""
    compression: str = "zstd"

    def write(self, rows: DataFrame, batch: int) -> None:
        """`rows` have a column `date`. As if once, however often."""
        writers: dict[str, Callable[[DataFrame, int], None]] = {
            PARQUET: self._write_parquet,
            DELTA: self._write_delta,
            ICEBERG: self._write_iceberg,
        }
        writers[self.form](rows, batch)

    def read(self, batches: Iterable[int]) -> DataFrame:
        """The rows of these batches, in no order."""
        from pyspark.sql import functions

        numbers = list(batches)
        if self.form == PARQUET:
            paths = [f"{self.folder}/data/batch={number}" for number in numbers]
            frame = self.spark.read.option("basePath", f"{self.folder}/data").parquet(*paths)
            return frame.withColumn("topic", functions.col("messageTopic")).drop("messageTopic", "batch")
        table = self._table() if self.form == ICEBERG else f"delta.`{self.folder}/delta`"
        return self.spark.table(table).where(functions.col("batch").isin(numbers)).drop("batch")

    def _write_parquet(self, rows: DataFrame, batch: int) -> None:
        from pyspark.sql import functions

        # A name in a path is escaped, and one that is a number becomes one: the topic is a column as well.
        parts = rows.withColumn("messageTopic", functions.col("topic"))
        writer = parts.write.mode("overwrite").option("compression", self.compression)
        # Bodies do not repeat: a dictionary of them costs a fifth of the time and saves nothing.
        writer = writer.option("parquet.enable.dictionary#body", "false")
        writer.partitionBy("topic", "date").parquet(f"{self.folder}/data/batch={batch}")

    def _write_delta(self, rows: DataFrame, batch: int) -> None:
        from pyspark.sql import functions

        writer = rows.withColumn("batch", functions.lit(batch)).write.format("delta").mode("append")
        writer = writer.option("txnAppId", self.run).option("txnVersion", batch)
        writer.partitionBy("topic", "date").save(f"{self.folder}/delta")

    def _write_iceberg(self, rows: DataFrame, batch: int) -> None:
        from pyspark.sql import functions

        marked = rows.withColumn("batch", functions.lit(batch))
        table, mark = self._table(), f"{self.run}/{batch}"
        if not self.spark.catalog.tableExists(table):
            marked.limit(0).writeTo(table).using("iceberg").partitionedBy("topic", "date").create()
        kept = self.spark.table(f"{table}.snapshots").where(functions.col("summary")["pyromq-batch"] == mark)
        if kept.isEmpty():
            ordered = marked.sortWithinPartitions("topic", "date")
            ordered.writeTo(table).option("snapshot-property.pyromq-batch", mark).append()

    def _table(self) -> str:
        """A catalog of files below the folder: no server, no other place."""
        catalog = f"spark.sql.catalog.{_CATALOG}"
        self.spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        self.spark.conf.set(f"{catalog}.type", "hadoop")
        self.spark.conf.set(f"{catalog}.warehouse", f"{self.folder}/iceberg")
        return f"{_CATALOG}.archive.messages"
