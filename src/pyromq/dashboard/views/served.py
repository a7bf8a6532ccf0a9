"""What views hand over besides structs: files, and events that go on coming."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple


class StreamEvent(NamedTuple):
    """`kind` is the event's name in text/event-stream, `data` what JSON can tell."""

    kind: str
    data: Any


@dataclass(frozen=True, slots=True)
class DownloadFile:
    """`parts`: its bytes, piece by piece; whoever makes them looks after what he has open."""

    name: str
    parts: AsyncIterator[bytes]
