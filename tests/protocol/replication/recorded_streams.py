"""Streams between Java's brokers in controller mode, as tests/golden/ha has them."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden" / "ha"
RUNS = ("controller-failover", "controller-shrink")


@dataclass
class RecordedConnection:
    """What both sides sent, in pieces as the recorder read them."""

    from_follower: list[bytes] = field(default_factory=list)
    from_master: list[bytes] = field(default_factory=list)


def connections(run: str) -> dict[int, RecordedConnection]:
    """Return the connections of a run that carried any byte."""
    found: dict[int, RecordedConnection] = defaultdict(RecordedConnection)
    with gzip.open(GOLDEN / f"{run}-stream.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            if "b64" in row:
                side = found[row["conn"]]
                pieces = side.from_follower if row["dir"] == "s2m" else side.from_master
                pieces.append(base64.b64decode(row["b64"]))
    return dict(found)
