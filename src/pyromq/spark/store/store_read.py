"""`option("store", PATH)`: a batch read of commit-log files, without a broker. Tasks need the folders that are named.

Rows are everything that is in the log, RocketMQ's own topics too, or with `content=damage` what is no record any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ...errors import ConfigError
from ...store.files.disk import DiskError
from ..failures import shown_in_a_sentence
from ..options import ReadOptions
from ..read.pushed_filters import FilteringReader
from ..schema import arrow_of
from .store_rows import messages_of
from .store_scan import PIECE, Damage, LogRange, RangeScan, plan, stored_within

DAMAGE_DDL = "store string, position bigint, size bigint, reason string"
_DAMAGE = pa.schema({"store": pa.string(), "position": pa.int64(), "size": pa.int64(), "reason": pa.string()})


@dataclass
class LogPart(InputPartition):
    part: LogRange


class StoreReader(FilteringReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        is_messages = options.content == "messages"
        super().__init__(schema, is_asked=options.filter_pushdown and is_messages)
        self._options = options
        self._schema = schema
        if is_messages:
            arrow_of(schema)
        elif schema.names != _DAMAGE.names:
            raise ConfigError(f"content = 'damage': its rows are {DAMAGE_DDL}, and the schema cannot be another one")

    @shown_in_a_sentence()
    def partitions(self) -> list[LogPart]:
        options = self._options
        least = -(-(options.min_partitions or 1) // len(options.store))
        try:
            stores = [store for store in options.store if self.pushed.has("brokerName", store)]
            return [LogPart(part) for store in stores for part in self._parts(store, least)]
        except DiskError as fault:
            raise ConfigError(f"store: {fault}") from None

    def _parts(self, store: str, least: int) -> list[LogRange]:
        low, high = self.pushed.times_ms()
        if low is None and high is None:
            return plan(store, least)
        return stored_within(plan(store, least, PIECE), low, high)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LogPart):  # Spark makes a task of its own where there is none
            with shown_in_a_sentence():
                yield from self._rows(partition.part)

    def _rows(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        scan = RangeScan(part, verify=self._options.verify_crc)
        if self._options.content == "damage":
            yield from _damage(scan)
            return
        left = self.pushed.row_filter(exact=("brokerName",))
        for batch in messages_of(scan, self._narrowed(), arrow_of(self._schema), part.store):
            yield batch if left is None else batch.filter(left)

    def _narrowed(self) -> ReadOptions:
        """Return the options with the query's times: rows outside of them are chosen before any column is made."""
        options, (low, high) = self._options, self.pushed.times_ms()
        first, last = options.starting_timestamp, options.ending_timestamp
        return replace(
            options,
            starting_timestamp=max((each for each in (low, first) if each is not None), default=None),
            ending_timestamp=min((each for each in (high, last) if each is not None), default=None),
        )


def _damage(scan: RangeScan) -> Iterator[pa.RecordBatch]:
    found = [each for each in scan if isinstance(each, Damage)]
    if found:
        rows = [each._asdict() | {"size": each.end - each.position} for each in found]
        yield pa.RecordBatch.from_pylist(rows, _DAMAGE)
