"""`option("store", PATH)`: a batch read of commit-log files, without a broker. Tasks need the folders that are named.

Rows are everything that is in the log, RocketMQ's own topics too, or with `content=damage` what is no record any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...errors import ConfigError
from ...store.files.disk import DiskError
from ..failures import shown_in_a_sentence
from ..options import ReadOptions
from ..schema import arrow_of
from .store_rows import messages_of
from .store_scan import Damage, LogRange, RangeScan, plan

DAMAGE_DDL = "store string, position bigint, size bigint, reason string"
_DAMAGE = pa.schema({"store": pa.string(), "position": pa.int64(), "size": pa.int64(), "reason": pa.string()})


@dataclass
class LogPart(InputPartition):
    part: LogRange


class StoreReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        if options.content == "messages":
            arrow_of(schema)
        elif schema.names != _DAMAGE.names:
            raise ConfigError(f"content = 'damage': its rows are {DAMAGE_DDL}, and the schema cannot be another one")

    @shown_in_a_sentence()
    def partitions(self) -> list[LogPart]:
        options = self._options
        least = -(-(options.min_partitions or 1) // len(options.store))
        try:
            return [LogPart(part) for store in options.store for part in plan(store, least)]
        except DiskError as fault:
            raise ConfigError(f"store: {fault}") from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LogPart):  # Spark makes a task of its own where there is none
            with shown_in_a_sentence():
                yield from self._rows(partition.part)

    def _rows(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        scan = RangeScan(part, verify=self._options.verify_crc)
        if self._options.content == "damage":
            return _damage(scan)
        return messages_of(scan, self._options, arrow_of(self._schema), part.store)


def _damage(scan: RangeScan) -> Iterator[pa.RecordBatch]:
    found = [each for each in scan if isinstance(each, Damage)]
    if found:
        rows = [each._asdict() | {"size": each.end - each.position} for each in found]
        yield pa.RecordBatch.from_pylist(rows, _DAMAGE)
