"""The source as `dying`, whose Python worker is killed in the middle of its read: once for each queue of the topic.

Option `marks` is a folder that remembers which were killed. Spark's workers import this file by its name.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyromq.spark.options import Use, read_options
from pyromq.spark.read.batch_read import QueuePart
from pyromq.spark.read.stream_read import StreamReader
from pyromq.spark.schema import DDL
from pyromq.spark.source import RocketMQSource


class DyingReader(StreamReader):
    def __init__(self, marks: str, *rest: Any) -> None:
        super().__init__(*rest)
        self._marks = marks

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_marks": self._marks}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueuePart)
        mark = Path(self._marks) / f"died-{partition.part.queue.queue_id}"
        for batch in super().read(partition):
            yield batch
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)


class DyingSource(RocketMQSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        DataSource.__init__(self, options)  # type: ignore[arg-type]  # `marks` is no option of ours

    @classmethod
    def name(cls) -> str:
        return "dying"

    def schema(self) -> str:
        return DDL  # and `marks` is not looked at

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        given = {key: value for key, value in self.options.items() if key != "marks"}
        return DyingReader(self.options["marks"], read_options(given, Use.STREAM), schema)
