"""`df.writeStream.format("rocketmq")`: as a batch write, under the names of query and micro-batch.

A micro-batch that is repeated, after a task's end or a restart from the checkpoint, sends under the same names again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...errors import ConfigError
from ..options import WriteOptions
from .batch_write import Written, log_written, write_rows
from .writing import check_columns

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema.names, options)
        if options.origin:
            raise ConfigError(
                f"origin = {options.origin!r}: it names a batch write; rows of a stream have their ids from query and "
                "batch, so leave it out"
            )
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        origin = f"{context.getLocalProperty(_QUERY)}/{context.getLocalProperty(_BATCH)}"
        return write_rows(self._options, origin, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        log_written("batch written", messages, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        log_written("batch failed; what was sent before stays", messages, batch=batchId)
