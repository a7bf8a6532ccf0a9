"""JSON bodies, declared once and driven both ways.

    class QueueData(Body, kw_only=True):
        broker_name: str                    # required; `brokerName` on the wire
        perm: int = always(6)               # may be missing in what we read, is always written
        queues: list[int] = always_new(list)
        zone_name: str | None = None        # left out while None

Fields stand in the alphabetical order of their wire names, which is the order that Java writes (a test checks it).
Unknown members are ignored. Maps keep their order. What is no JSON or of the wrong type raises Malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from ...errors import Malformed, ProtocolError
from ..ints import Int64
from ..json import DEFAULT_LIMITS, JsonLimits, read_json
from .keyed import read_keyed
from .writer import body_parts, encode_body

__all__ = ["Body", "DataVersion", "always", "always_new", "body_parts", "decode_body", "encode_body"]

T = TypeVar("T")


class Body(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A JSON object on the wire. None is left out, everything else is written."""


def always(value: T, name: str | None = None) -> T:
    """Return a default that is written too: msgspec leaves out only defaults that it can compare, not a function's."""
    return always_new(lambda: value, name)


def always_new(make: Callable[[], T], name: str | None = None) -> T:
    """Return a default that is written, for a value that must not be shared: `always_new(dict)`."""
    result: T = msgspec.field(default_factory=lambda: make(), name=name)  # dict itself would be compared
    return result


def decode_body(kind: type[T], data: bytes | memoryview, limits: JsonLimits = DEFAULT_LIMITS, name: str = "") -> T:
    """Return a body of type `kind` (a Body, or a list or dict of them) from any JSON that a Java peer would read.

    Malformed says what is wrong; `name` is what it calls the type, if that is not its own.
    """
    decoder: msgspec.json.Decoder[T] = _decoder(kind)  # type: ignore[arg-type]
    try:
        return read_json(decoder.decode, data, limits)
    except (msgspec.DecodeError, ProtocolError) as fault:
        raise Malformed(f"the body is no {name or getattr(kind, '__name__', kind)}: {fault}") from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    # Not strict: C++ and Node clients send numbers as strings, and 0 and 1 for booleans.
    return msgspec.json.Decoder(kind, strict=False, dec_hook=read_keyed)


class DataVersion(Body, kw_only=True):
    """Which state of a table somebody has. Compared as a whole; a different one means: fetch it again."""

    counter: Int64 = always(0)
    state_version: Int64 = always(0)
    timestamp: Int64 = always(0)
