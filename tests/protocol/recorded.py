"""The frames recorded from the Java programs (tests/golden/frames), for the tests of this folder and the fuzzer."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

INDEX = Path(__file__).parent.parent / "golden" / "frames" / "index.jsonl"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One frame as it passed, and what the recorder read in its header."""

    line: int
    pair: int
    direction: str
    code: int
    request_code: int
    encoding: str
    header: dict[str, Any]
    wire: bytes
    truncated: bool  # the body was too long to keep

    @property
    def is_request(self) -> bool:
        return self.direction.endswith("request")

    @property
    def header_bytes(self) -> bytes:
        return self.wire[8 : 8 + (struct.unpack_from(">I", self.wire, 4)[0] & 0xFFFFFF)]

    @property
    def body(self) -> bytes:
        return self.wire[8 + len(self.header_bytes) :]

    def __str__(self) -> str:
        return f"{self.direction}-{self.request_code}-{self.encoding}-line{self.line}"


@cache
def recorded_frames() -> list[Recorded]:
    with INDEX.open(encoding="utf-8") as lines:
        return [_read(number, json.loads(line)) for number, line in enumerate(lines, 1)]


def _read(line: int, entry: dict[str, Any]) -> Recorded:
    return Recorded(
        line=line,
        pair=entry["pair"],
        direction=entry["dir"],
        code=entry["code"],
        request_code=entry["requestCode"],
        encoding=entry["serialize"],
        header=entry["header"],
        wire=base64.b64decode(entry["frame_b64"]),
        truncated=entry["truncated"],
    )
