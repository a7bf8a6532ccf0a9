"""Properties of a message that is put aside, as bytes: with those of its wait, they must still fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..model.message import Property
from ..protocol.properties import MAX_PROPERTIES_BYTES, encode_properties
from ..protocol.record import CRC_PROPERTY_BYTES

ROOM = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES


def encoded(pairs: Mapping[str, str], wait: str) -> bytes:
    """Without the record's own CRC: it gets a new one. `wait`: what it waits for, for the refusal."""
    return fitting({name: value for name, value in pairs.items() if name != Property.CRC32}, wait)


def fitting(pairs: Mapping[str, str], wait: str, before: bytes = b"") -> bytes:
    """These behind others that are bytes already. RequestRefused if they do not fit."""
    try:
        raw = before + encode_properties(pairs)
    except ValueError as fault:
        raise RequestRefused(f"the message is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL) from None
    if len(raw) > ROOM:
        raise RequestRefused(
            f"the message is illegal: with those of its {wait}, its properties take {len(raw)} bytes, "
            f"the limit is {ROOM}",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return raw
