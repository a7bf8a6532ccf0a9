"""`df.write.format("rocketmq")`: tasks send their rows and wait for the answers; the driver says what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ... import logs
from ...ambient import system_random
from ...errors import ConfigError
from ..options import WriteOptions
from .sending import BatchSender, SendTotals
from .writing import RowWriter, check_columns

log = logs.get("pyromq.spark")


@dataclass
class Written(WriterCommitMessage):
    """What one task sent."""

    totals: SendTotals


def check_mode(overwrite: bool) -> None:
    if overwrite:
        raise ConfigError("mode('overwrite'): messages that were sent cannot be overwritten; use mode('append')")


def write_rows(options: WriteOptions, origin: str, partition: int, batches: Iterator[pa.RecordBatch]) -> Written:
    return Written(RowWriter(options, f"{origin}/{partition}", partition, BatchSender(options)).write(batches))


def log_written(what: str, messages: list[Any], **more: Any) -> None:
    total = sum((each.totals for each in messages if isinstance(each, Written)), SendTotals())
    log.info(what, messages=total.rows, promise=total.promise, unsafe_requests=total.unsafe, **more)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema.names, options)
        self._options = options
        # One write is one origin: its tasks and their repeats share it, the same write done twice only if it is named.
        self._origin = f"named-{options.origin}" if options.origin else f"job-{system_random().getrandbits(96):024x}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        return write_rows(self._options, self._origin, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log_written("written", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log_written("write failed; what was sent before stays", messages)
