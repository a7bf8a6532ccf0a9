"""The recorded pop frames of Java's broker (tests/golden/grpc/pop-frames.jsonl), by the number of their exchange."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

from pyromq.protocol.command import Command
from tests.wire import FrameDecoder

FRAMES = Path(__file__).parents[2] / "golden" / "grpc" / "pop-frames.jsonl"


class Exchange(NamedTuple):
    """A request and what Java answered, with the name of the scenario."""

    scenario: str
    request: Command
    answer: Command


def exchanges(file: Path = FRAMES) -> dict[int, Exchange]:
    """Return what was recorded with a broker, by the number of the exchange."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["peer"] == "broker":
            found.setdefault(row["pair"], {})[row["dir"]] = row
    return {
        pair: Exchange(
            sides["request"].get("scenario", str(pair)), *(_command(sides[way]) for way in ("request", "response"))
        )
        for pair, sides in found.items()
        if {"request", "response"} <= sides.keys() and not any(side.get("truncated") for side in sides.values())
    }


def _command(row: dict[str, Any]) -> Command:
    (command,) = FrameDecoder().feed(base64.b64decode(row["frame_b64"]))
    return command
