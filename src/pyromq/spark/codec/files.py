"""Messages into one Parquet or Arrow file, by the columns of the data source and without Spark.

`store dump --to` and `msg export` call it. The same plans and tasks as a batch read, one after the other. The file is
there whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
_PIECE = 16 << 20  # of a log, after which it is told how far the work is

Progress = Callable[[int, int], None]  # how much is done, of how much in all


class Part(NamedTuple):
    """Batches from a place to another, which `column` of a batch is to be compared with."""

    begin: int
    end: int
    column: str
    batches: Iterator[pa.RecordBatch]


def _no_progress(done: int, whole: int) -> None:
    pass


def check_target(target: Path) -> None:
    """Raise ConfigError for a file that cannot be written, before anything is read."""
    if target.suffix not in ENDINGS:
        raise ConfigError(f"{target}: the file's ending says its format; give {' or '.join(ENDINGS)}")
    if target.exists():
        raise ConfigError(f"{target} exists already; remove it, or name another file")


def store_to_file(
    store: Path,
    target: Path,
    damaged: Callable[[Damage], None],
    report_progress: Progress = _no_progress,
    **options: str,
) -> int:
    """Write the messages of a store; return how many. `damaged` gets the damage, which is read around. ConfigError.

    `report_progress` is called with the bytes of the log that are read, and all of them.

    Here and below, a message that cannot be read has no body in the file, and is named in the log.
    """
    check_target(target)
    asked = read_options({"store": "-", "mode": PERMISSIVE, **options}, Use.BATCH)  # a path may hold commas
    parts = []
    for part in plan(str(store), 1, _PIECE):
        scan = RangeScan(part, verify=asked.verify_crc)
        batches = messages_of(scan, asked, arrow_schema(), str(store), damaged)
        parts.append(Part(part.begin, part.end, "commitLogOffset", batches))
    return _write_file(target, parts, report_progress)


def topic_to_file(target: Path, report_progress: Progress = _no_progress, **options: str) -> int:
    """Write the messages of topics, with the options of a batch read from brokers. Progress is in messages."""
    check_target(target)
    asked = read_options({"mode": PERMISSIVE, **options}, Use.BATCH)
    parts = [
        Part(part.begin, part.end, "queueOffset", read_range(part, at, asked, arrow_schema()))
        for part, at in planned(asked)
    ]
    return _write_file(target, parts, report_progress)


def _write_file(target: Path, parts: Sequence[Part], report_progress: Progress) -> int:
    aside = target.with_name(f".{target.name}.unfinished")
    count, before, whole = 0, 0, sum(part.end - part.begin for part in parts)
    try:
        aside.touch()  # pyarrow's own error names the file beside
    except OSError as fault:
        fault.filename = str(target)
        raise
    try:
        with _writer(target.suffix, aside) as writer:
            for part in parts:
                for batch in part.batches:
                    writer.write_batch(batch)
                    count += batch.num_rows
                    if batch.num_rows:
                        at = min(part.end, batch.column(part.column)[-1].as_py())
                        report_progress(before + max(0, at - part.begin), whole)
                before += part.end - part.begin
                report_progress(before, whole)
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
