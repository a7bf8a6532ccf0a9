"""The messages of a scanned log as Arrow batches: chosen by topic and time, with damage told. No Spark.

For the offline reader (`store_read.py`) and for files (`files.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ... import logs
from ..codec.bad_records import BadRecords
from ..codec.batches import decode_batches
from ..codec.records import Records
from ..codec.vectors import spans
from ..options import ReadOptions
from ..read.offsets import DataLoss
from .store_scan import Damage, RangeScan

log = logs.get("pyromq.spark")


def messages_of(
    scan: RangeScan,
    options: ReadOptions,
    schema: pa.Schema,
    store: str,
    damaged: Callable[[Damage], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the intact records of a scan that are wanted. `damaged` gets the damage; else DataLoss or a log line."""
    bad = BadRecords(options.mode, store)
    for found in scan:
        if isinstance(found, Damage):
            damaged(found) if damaged else _report(found, options)
            continue
        chosen = _chosen(found, options)
        for begin in range(0, len(chosen), options.batch_rows):
            for batch in decode_batches(chosen.slice(begin, begin + options.batch_rows), schema, store, bad):
                if batch.num_rows:
                    yield batch


def _report(damage: Damage, options: ReadOptions) -> None:
    if options.fail_on_data_loss:
        raise DataLoss(f"{damage}. Set failOnDataLoss=false to read around it; content=damage lists all such places")
    log.warning("damaged", what=str(damage))


def _chosen(records: Records, options: ReadOptions) -> Records:
    """Choose by topic and store time, before any column is made."""
    wanted: npt.NDArray[np.bool_] = np.ones(len(records), np.bool_)
    if options.topic or options.topic_pattern:
        known = spans(records.buffer, records.topic_at, records.topic_end, pa.binary()).dictionary_encode()
        fits: Callable[[str], object] = re.compile(options.topic_pattern).fullmatch
        if options.topic:
            fits = options.topic.__contains__
        names = [each.decode("utf-8", "replace") for each in known.dictionary.to_pylist()]
        wanted &= np.array([bool(fits(name)) for name in names], np.bool_)[known.indices.to_numpy()]
    if options.starting_timestamp is not None or options.ending_timestamp is not None:
        times = records.int64(records.store_time_at)
        if options.starting_timestamp is not None:
            wanted &= times >= options.starting_timestamp
        if options.ending_timestamp is not None:
            wanted &= times < options.ending_timestamp
    return records if wanted.all() else Records(records.buffer, records.at[wanted])
