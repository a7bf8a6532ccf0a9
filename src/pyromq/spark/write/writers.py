"""`df.write` and `df.writeStream` of `format("rocketmq")`: tasks send their rows and wait for the answers; the driver
says what came of it.

A micro-batch of a stream that is repeated, after a task's end or a restart from the checkpoint, sends under the same
names again: those of the query and the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ... import logs
from ...ambient import system_random
from ...errors import ConfigError
from ..failures import shown_in_a_sentence
from ..options import WriteOptions
from .sending import BatchSender, SendTotals
from .writing import RowWriter, check_columns

log = logs.get("pyromq.spark")

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    totals: SendTotals


def task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # only tasks come here
    return context


def types_of(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}


@shown_in_a_sentence()
def write_rows(options: WriteOptions, origin: str, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send the rows of this task; `origin` names the write in a way that its repeat shares."""
    partition = task_context().partitionId()
    return Written(RowWriter(options, f"{origin}/{partition}", partition, BatchSender(options)).write(batches))


def log_written(what: str, messages: list[Any], **more: Any) -> None:
    total = sum((each.totals for each in messages if isinstance(each, Written)), SendTotals())
    log.info(what, messages=total.rows, promise=total.promise, unsafe_requests=total.unsafe, **more)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(types_of(schema), options)
        self._options = options
        # One write is one origin: its tasks and their repeats share it, the same write done twice only if it is named.
        self._origin = f"named-{options.origin}" if options.origin else f"job-{system_random().getrandbits(96):024x}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(self._options, self._origin, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log_written("written", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log_written("write failed; what was sent before stays", messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(types_of(schema), options)
        if options.origin:
            raise ConfigError(
                f"origin = {options.origin!r}: it names a batch write; rows of a stream have their ids from query and "
                "batch, so leave it out"
            )
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = task_context()
        origin = f"{context.getLocalProperty(_QUERY)}/{context.getLocalProperty(_BATCH)}"
        return write_rows(self._options, origin, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        log_written("batch written", messages, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        log_written("batch failed; what was sent before stays", messages, batch=batchId)
