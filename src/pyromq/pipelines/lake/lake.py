"""The formats that an archive may have, each with a write that may be repeated: Parquet, Delta, Iceberg.

Parquet replaces the batch's own folder. Delta and Iceberg remember which batch each commit was, and a repeat is left
out. Their packages are not part of Spark: without them a run is refused with what to install.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from pyspark.sql import DataFrame, SparkSession, functions

from ...errors import ConfigError, PyroError
from ...spark.schema import DDL
from ...text.extras import install_command
from .delta_table import DeltaLog
from .iceberg_table import IcebergTable
from .table_files import new_files, write_files, write_parquet

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
_PACKAGES = {DELTA: "deltalake", ICEBERG: "pyiceberg"}
_TIMES = "spark.sql.parquet.outputTimestampType"


def check(form: str, catalog: str = "", table: str = "") -> None:
    """Raise PyroError, which says what to install, if something is missing; ConfigError for what is Iceberg's alone."""
    if (catalog or table) and form != ICEBERG:
        raise ConfigError(f"catalog, table: they are of Iceberg, and the format is {form!r}; leave them out")
    package = _PACKAGES.get(form)
    if package and find_spec(package) is None:
        raise PyroError(
            f"format = {form!r}: the package {package} is not installed: {install_command('lake')}, "
            "or write --format parquet"
        )


@dataclass(frozen=True, slots=True)
class Lake:
    """The rows of one archive; `run` is its name in the commits of tables. `catalog` and `table` are of Iceberg."""

    spark: SparkSession
    folder: str
    form: str = PARQUET
    run: str = ""
    compression: str = "zstd"
    catalog: str = ""
    table: str = ""

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write the rows of a batch, which have a column `date`. Repeating it changes nothing."""
        with _readable_times(rows.sparkSession):  # a stream has one of its own
            if self.form == PARQUET:
                # A name in a path is escaped, and one that is a number becomes one: the topic is a column as well.
                parts = rows.withColumn("messageTopic", functions.col("topic"))
                write_parquet(parts, f"{self.folder}/data/batch={batch}", self.compression, "topic", "date")
            else:
                self._write_table(rows, batch)

    def read(self, batches: Iterable[int]) -> DataFrame:
        """Return the rows of these batches, in no order."""
        numbers = list(batches)
        if self.form == PARQUET:
            paths = [f"{self.folder}/data/batch={number}" for number in numbers]
            frame = self.spark.read.option("basePath", f"{self.folder}/data").parquet(*paths)
            return frame.withColumn("topic", functions.col("messageTopic")).drop("messageTopic", "batch")
        # Folders say nothing here: the table's files alone count, and others may have rewritten them.
        reader = self.spark.read.schema(f"{DDL}, date date, batch bigint").option("recursiveFileLookup", "true")
        return reader.parquet(*self._table().files()).where(functions.col("batch").isin(numbers)).drop("batch")

    def _write_table(self, rows: DataFrame, batch: int) -> None:
        table = self._table()
        if table.has(batch):  # its files are part of the table: they must not be replaced
            return
        marked = rows.withColumn("batch", functions.lit(batch).cast("bigint"))
        write_files(marked, self._place, batch, self.compression)
        table.add(new_files(self.spark, self._place, batch), batch, marked.schema)

    @property
    def _place(self) -> str:
        return f"{self.folder}/{self.form}"

    def _table(self) -> DeltaLog | IcebergTable:
        if self.form == DELTA:
            return DeltaLog(self._place, self.run)
        return IcebergTable(self._place, self.run, self.catalog, self.table)


@contextmanager
def _readable_times(session: SparkSession) -> Iterator[None]:
    """Write times that others can read: Spark's own (INT96) have no statistics, and others misread them."""
    before = session.conf.get(_TIMES)
    session.conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        session.conf.set(_TIMES, before or "INT96")
