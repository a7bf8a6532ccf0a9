"""The handle that the sender of a timed message gets and gives back to recall it. Pure.

base64url of `v1 topic broker time id`, as RocketMQ 5.3 writes it. The time is one millisecond behind the slot that the
message waits in, so that rounding it finds the same slot.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from .wire_text import whole_number

VERSION = "v1"


class BadHandle(ValueError):
    """It is none, or not of a version that we know."""


class RecallHandle(NamedTuple):
    topic: str
    broker: str
    time_ms: int
    unique: str

    def encode(self) -> str:
        text = f"{VERSION} {self.topic} {self.broker} {self.time_ms} {self.unique}"
        return base64.urlsafe_b64encode(text.encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Decode a handle, with Java's padding or without it. BadHandle says why it cannot be."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadHandle("recall handle is invalid") from None
    parts = raw.split(" ")
    if len(parts) != 5 or parts[0] != VERSION:
        raise BadHandle("recall handle is invalid")
    _, topic, broker, time, unique = parts
    number = whole_number(time)
    return RecallHandle(topic, broker, -1 if number is None else number, unique)
