"""A message of a capture before it has a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Captured(msgspec.Struct, frozen=True, array_like=True):
    """One message. Messages of the same topic and `lane` stay in order."""

    topic: str
    lane: str
    body: bytes
    properties: dict[str, str]


def body_of(value: Mapping[str, Any], schema: Mapping[str, Any] | None) -> bytes:
    """Return a value as JSON; with the schema part if a schema is given."""
    return msgspec.json.encode(value if schema is None else {"schema": schema, "payload": value})
