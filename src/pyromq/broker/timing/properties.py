"""Properties of a message that waits, as bytes: with those of its wait, they must still fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.properties import MAX_PROPERTIES_BYTES, encode_properties
from ...protocol.record import CRC_PROPERTY_BYTES

_OLD = (b"REAL_", b"TIMER_OUT_MS", b"TIMER_ROLL", b"TIMER_E", b"TIMER_DEQ", b"PYRO_DUE", b"PYRO_DELAY", b"__CRC32#")
ROOM = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES


def appended(raw: bytes, pairs: Mapping[str, str]) -> bytes | None:
    """The usual case without taking all apart: new properties behind the others. None where that cannot be done.

    Names of waits and the record's own CRC must not be there yet; the caller then takes the long way.
    """
    if any(mark in raw for mark in _OLD) or not raw.endswith(b"\x02"):
        return None
    whole = raw + "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
    return whole if len(whole) <= ROOM else None


def encoded(pairs: Mapping[str, str]) -> bytes:
    """Without the record's own CRC: it gets a new one. RequestRefused if they do not fit."""
    pairs = {name: value for name, value in pairs.items() if name != Property.CRC32}
    try:
        raw = encode_properties(pairs)
    except ValueError as fault:
        raise RequestRefused(f"the message is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL) from None
    if len(raw) > ROOM:
        raise RequestRefused(
            f"the message is illegal: with those of its delay, its properties take {len(raw)} bytes, "
            f"the limit is {ROOM}",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return raw
