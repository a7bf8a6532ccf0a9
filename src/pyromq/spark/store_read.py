"""`option("store", PATH)`: a batch read of commit-log files, without a broker. Tasks need the folders that are named.

Rows are everything that is in the log, RocketMQ's own topics too, or with `content=damage` what is no record any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .. import logs
from ..errors import ConfigError
from ..store.disk import DiskError
from .columns import decode_records
from .options import ReadOptions
from .pulling import DataLoss
from .records import Records
from .spark_schema import arrow_of
from .store_scan import Damage, LogRange, RangeScan, plan
from .vectors import spans

log = logs.get("pyromq.spark")

DAMAGE_DDL = "store string, position bigint, size bigint, reason string"
_DAMAGE = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)


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

    def partitions(self) -> list[LogPart]:
        options = self._options
        least = -(-(options.min_partitions or 1) // len(options.store))
        try:
            return [LogPart(part) for store in options.store for part in plan(store, least)]
        except DiskError as fault:
            raise ConfigError(f"store: {fault}") from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPart):
            return iter(())  # Spark makes a task of its own where there is none
        scan = RangeScan(partition.part, verify=self._options.verify_crc)
        if self._options.content == "damage":
            return _damage(scan)
        return self._messages(scan, arrow_of(self._schema), partition.part.store)

    def _messages(self, scan: RangeScan, schema: pa.Schema, store: str) -> Iterator[pa.RecordBatch]:
        rows = self._options.batch_rows
        for found in scan:
            if isinstance(found, Damage):
                self._report(found)
                continue
            chosen = _chosen(found, self._options)
            for begin in range(0, len(chosen), rows):
                batch = decode_records(chosen.slice(begin, begin + rows), schema, store)
                if batch.num_rows:
                    yield batch

    def _report(self, damage: Damage) -> None:
        told = (
            f"{damage.store}: {damage.end - damage.position} bytes at {damage.position} are no record: {damage.reason}"
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{told}. Set failOnDataLoss=false to read around it; content=damage lists all such places")
        log.warning("damaged", what=told)


def _damage(scan: RangeScan) -> Iterator[pa.RecordBatch]:
    found = [each for each in scan if isinstance(each, Damage)]
    if found:
        columns = [
            [each.store for each in found],
            [each.position for each in found],
            [each.end - each.position for each in found],
            [each.reason for each in found],
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _DAMAGE, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_DAMAGE)


def _chosen(records: Records, options: ReadOptions) -> Records:
    """By topic and store time, before any column is made."""
    wanted: npt.NDArray[np.bool_] = np.ones(len(records), np.bool_)
    if options.topic or options.topic_pattern:
        known = spans(records.buffer, records.topic_at, records.topic_end, pa.binary()).dictionary_encode()
        fits = np.array(
            [_fits(each.decode("utf-8", "replace"), options) for each in known.dictionary.to_pylist()], np.bool_
        )
        wanted &= fits[known.indices.to_numpy()]
    if options.starting_timestamp is not None or options.ending_timestamp is not None:
        times = records.int64(records.store_time_at)
        if options.starting_timestamp is not None:
            wanted &= times >= options.starting_timestamp
        if options.ending_timestamp is not None:
            wanted &= times < options.ending_timestamp
    return records if wanted.all() else Records(records.buffer, records.at[wanted])


def _fits(topic: str, options: ReadOptions) -> bool:
    return topic in options.topic if options.topic else re.fullmatch(options.topic_pattern, topic) is not None
