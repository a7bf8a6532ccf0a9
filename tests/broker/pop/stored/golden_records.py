"""The records of a store that Java's broker wrote, straight from its log files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyromq.protocol.record import BLANK, MAGIC_V1, MAGIC_V2, Record, decode_record


def records_of(store: Path) -> Iterator[Record]:
    for file in sorted((store / "commitlog").iterdir()):
        raw, at = file.read_bytes(), 0
        while at < len(raw) - BLANK.size and BLANK.unpack_from(raw, at)[1] in (MAGIC_V1, MAGIC_V2):
            yield (record := decode_record(raw, at))
            at += record.size
