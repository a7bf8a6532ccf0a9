"""Properties of a message that waits for a time, as bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .. import parked_properties
from ..parked_properties import ROOM

_OLD = re.compile(b"REAL_|TIMER_(?:OUT_MS|ROLL|E|DEQ)|PYRO_D(?:UE|ELAY)|__CRC32#")


def appended(raw: bytes, pairs: Mapping[str, str]) -> bytes | None:
    """The usual case without taking all apart: new properties behind the others. None where that cannot be done.

    Names of waits and the record's own CRC must not be there yet; the caller then takes the long way.
    """
    if not raw.endswith(b"\x02") or _OLD.search(raw) is not None:
        return None
    whole = raw + "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()]).encode()
    return whole if len(whole) <= ROOM else None


def encoded(pairs: Mapping[str, str]) -> bytes:
    """RequestRefused if they do not fit."""
    return parked_properties.encoded(pairs, "delay")
