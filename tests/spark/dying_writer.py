"""A write on a cluster whose tasks die between their last answer and the commit: run by test_standalone.py.

The first attempt of partition 0 kills its Python worker, that of partition 1 its whole executor. Spark runs both again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceWriter
from pyspark.sql.types import StructType

from pyromq.spark.options import write_options
from pyromq.spark.session import new_session
from pyromq.spark.source import RocketMQSource
from pyromq.spark.write.writers import BatchWriter, Written

ROWS = 2000


def executor() -> int:
    """The JVM above this worker."""
    pid = os.getpid()
    while b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
        pid = int(Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()[1])
    return pid


class DyingWriter(BatchWriter):
    def __init__(self, folder: str, *rest: Any) -> None:
        super().__init__(*rest)
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        mark = Path(self._folder) / f"died-{context.partitionId()}"
        if context.partitionId() in (0, 1) and not mark.exists():
            mark.touch()
            os.kill(executor() if context.partitionId() else os.getpid(), signal.SIGKILL)
        return written


class DyingSource(RocketMQSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        DataSource.__init__(self, options)  # type: ignore[arg-type]  # `marks` is no option of ours

    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        given = {key: value for key, value in self.options.items() if key != "marks"}
        return DyingWriter(self.options["marks"], write_options(given), schema)


def main(master: str, namesrv: str, topic: str, folder: str) -> None:
    settings = {"spark.executor.memory": "500m", "spark.cores.max": "2"}
    spark = new_session("dying", master=master, memory="600m", settings=settings)
    spark.dataSource.register(DyingSource)
    rows = spark.range(0, ROWS, 1, 3).selectExpr("concat('m', id) AS body")
    to = {"nameServer": namesrv, "topic": topic, "marks": folder, "sendOnce": "required", "maxBatchBytes": "5000"}
    rows.write.format("dying").mode("append").options(**to).save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
