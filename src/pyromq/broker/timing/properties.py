"""Properties of a message that waits for a time, as bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ...protocol.record import Record
from ..intake import parked_properties
from ..intake.parked_properties import ROOM

_WAIT = "delay"
_OLD = re.compile(b"REAL_|TIMER_(?:OUT_MS|ROLL|E|DEQ)|PYRO_D(?:UE|ELAY)|__CRC32#")


def appended(raw: bytes, pairs: Mapping[str, str]) -> bytes | None:
    """The usual case without taking all apart: new properties behind the others. None where that cannot be done.

    Names of waits and the record's own CRC must not be there yet; the caller then takes the long way.
    """
    if not raw.endswith(b"\x02") or _OLD.search(raw) is not None:
        return None
    whole = raw + "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()]).encode()
    return whole if len(whole) <= ROOM else None


def check_room(record: Record) -> Record:
    """Return the record as it waits. RequestRefused if what is added to it until it is delivered would not fit."""
    parked_properties.check_room(record.properties, _WAIT)
    return record


def shed(pairs: Mapping[str, str], also: Iterable[str] = ()) -> bytes:
    """Write them, without what only tells of the message's way where there is no room for it."""
    return parked_properties.shed(pairs, _WAIT, also)
