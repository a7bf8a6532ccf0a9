"""Replication as Java's brokers did it (tests/golden/ha): the stream of a classic pair, and both stores after it."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

HA = Path(__file__).parent / "golden" / "ha"
FILE_BYTES = 65536  # mappedFileSizeCommitLog of that pair
STREAM_BYTES = 241_170  # that the stream has of the log, from 0 on


class Piece(NamedTuple):
    """Bytes that one side sent, as the recorder read them."""

    connection: int
    from_master: bool
    data: bytes


def lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(HA / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def classic_stream() -> list[Piece]:
    rows = [row for row in lines("classic-stream") if "b64" in row]
    return [Piece(row["conn"], row["dir"] == "m2s", base64.b64decode(row["b64"])) for row in rows]


def unpack_stores(folder: Path) -> tuple[Path, Path]:
    """The store folders of master and slave below `folder`."""
    with tarfile.open(HA / "classic-stores.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "master", folder / "slave"


def log_bytes(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))
