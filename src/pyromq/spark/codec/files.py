"""Messages into one Parquet or Arrow file, by the columns of the data source and without Spark.

`store dump --to` and `msg export` call it. The same plans and tasks as a batch read, one after the other. The file is
there whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import ConfigError
from ..options import Use, read_options
from ..read.pulling import read_range
from ..read.starting import planned
from ..schema import arrow_schema
from ..store.store_rows import messages_of
from ..store.store_scan import Damage, RangeScan, plan
from .bad_records import PERMISSIVE

ENDINGS = (".parquet", ".arrow")


def check_target(target: Path) -> None:
    """Raise ConfigError for a file that cannot be written, before anything is read."""
    if target.suffix not in ENDINGS:
        raise ConfigError(f"{target}: the file's ending says its format; give {' or '.join(ENDINGS)}")
    if target.exists():
        raise ConfigError(f"{target} exists already; remove it, or name another file")


def store_to_file(store: Path, target: Path, damaged: Callable[[Damage], None], **options: str) -> int:
    """Write the messages of a store; return how many. `damaged` gets the damage, which is read around. ConfigError.

    Here and below, a message that cannot be read has no body in the file, and is named in the log.
    """
    check_target(target)
    asked = read_options({"store": "-", "mode": PERMISSIVE, **options}, Use.BATCH)  # a path may hold commas
    scans = (RangeScan(part, verify=asked.verify_crc) for part in plan(str(store), 1))
    return _write_file(target, (messages_of(scan, asked, arrow_schema(), str(store), damaged) for scan in scans))


def topic_to_file(target: Path, **options: str) -> int:
    """Write the messages of topics, with the options of a batch read from brokers."""
    check_target(target)
    asked = read_options({"mode": PERMISSIVE, **options}, Use.BATCH)
    return _write_file(target, (read_range(part, at, asked, arrow_schema()) for part, at in planned(asked)))


def _write_file(target: Path, parts: Iterable[Iterator[pa.RecordBatch]]) -> int:
    aside = target.with_name(f".{target.name}.unfinished")
    count = 0
    try:
        with _writer(target.suffix, aside) as writer:
            for batch in chain.from_iterable(parts):
                writer.write_batch(batch)
                count += batch.num_rows
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    return count


def _writer(ending: str, path: Path) -> Any:
    if ending == ".arrow":
        return pa.ipc.new_file(str(path), arrow_schema())
    from pyarrow import parquet

    # Bodies are of all kinds: a dictionary of them would be as large as they are.
    plain = [name for name in arrow_schema().names if name not in ("body", "msgId")]
    return parquet.ParquetWriter(str(path), arrow_schema(), compression="zstd", use_dictionary=plain)
