"""Properties of a message that waits for a time, as bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ...protocol.record import Record
from ..intake import parked_properties
from ..intake.parked_properties import MAX_PARKED_BYTES

_WAIT = "delay"
_OLD = re.compile(b"REAL_|TIMER_(?:OUT_MS|ROLL|E|DEQ)|PYRO_D(?:UE|ELAY)|__CRC32#")


def appended(raw: bytes, pairs: Mapping[str, str]) -> bytes | None:
    """Append new properties to encoded ones without decoding them. None: the caller has to decode.

    That is so where a property of a wait or the record's CRC is there already, or where the result would not fit.
    """
    if not raw.endswith(b"\x02") or _OLD.search(raw) is not None:
        return None
    whole = raw + "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()]).encode()
    return whole if len(whole) <= MAX_PARKED_BYTES else None


def check_fits(record: Record) -> Record:
    """Return the record as it waits. RequestRefused if what is added to it until it is delivered would not fit."""
    parked_properties.check_fits(record.properties, _WAIT)
    return record


def fit_properties(pairs: Mapping[str, str], also: Iterable[str] = ()) -> bytes:
    """Encode the properties, dropping those that only describe the message's way where they do not fit."""
    return parked_properties.fit_properties(pairs, _WAIT, also)
