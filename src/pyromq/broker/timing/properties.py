"""Properties of a message that waits, as bytes: with those of its wait, they must still fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.properties import MAX_PROPERTIES_BYTES, encode_properties
from ...protocol.record import CRC_PROPERTY_BYTES


def encoded(pairs: Mapping[str, str]) -> bytes:
    """Without the record's own CRC: it gets a new one. RequestRefused if they do not fit."""
    pairs = {name: value for name, value in pairs.items() if name != Property.CRC32}
    room = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES
    try:
        raw = encode_properties(pairs)
    except ValueError as fault:
        raise RequestRefused(f"the message is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL) from None
    if len(raw) > room:
        raise RequestRefused(
            f"the message is illegal: with those of its delay, its properties take {len(raw)} bytes, "
            f"the limit is {room}",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return raw
