"""Properties of a message that waits for a time, as bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .. import parked_properties
from ..parked_properties import ROOM

_OLD = (b"REAL_", b"TIMER_OUT_MS", b"TIMER_ROLL", b"TIMER_E", b"TIMER_DEQ", b"PYRO_DUE", b"PYRO_DELAY", b"__CRC32#")


def appended(raw: bytes, pairs: Mapping[str, str]) -> bytes | None:
    """The usual case without taking all apart: new properties behind the others. None where that cannot be done.

    Names of waits and the record's own CRC must not be there yet; the caller then takes the long way.
    """
    if any(mark in raw for mark in _OLD) or not raw.endswith(b"\x02"):
        return None
    whole = raw + "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
    return whole if len(whole) <= ROOM else None


def encoded(pairs: Mapping[str, str]) -> bytes:
    """RequestRefused if they do not fit."""
    return parked_properties.encoded(pairs, "delay")
