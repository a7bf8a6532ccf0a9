"""The properties of a parked message, as bytes: they must fit into a record together with those of its wait. Pure.

A park checks at the send that whatever is added until delivery will fit (`check_fits`). Loops, retries and carriers,
which write a message again, drop properties that only describe its way until the rest fits (`fit_properties`): so a
message that was accepted never becomes too large afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.properties import MAX_PROPERTIES_BYTES, rejoin_properties
from ...protocol.record import CRC_PROPERTY_BYTES

MAX_PARKED_BYTES = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES
RESERVED_BYTES = 128  # for what a wait adds until delivery; a timer, which adds the most, needs 102

# What a broker writes for people to read, the least wanted first: dropped where the rest would not fit.
EXPENDABLE = (
    Property.TIMER_ENQUEUE_MS,
    Property.TIMER_DEQUEUE_MS,
    Property.TRANSACTION_CHECK_TIMES,
    Property.CLUSTER,
    Property.TRACE_ON,
    Property.MSG_REGION,
)


def check_fits(raw: bytes, wait: str) -> bytes:
    """Return the properties of a message that begins to wait. RequestRefused if what is added later would not fit."""
    return _within(raw, wait, MAX_PARKED_BYTES - RESERVED_BYTES)


def fit_properties(pairs: Mapping[str, str], wait: str, also: Iterable[str] = ()) -> bytes:
    """Encode the properties, dropping the expendable ones and then `also`, one by one, until the rest fits.

    RequestRefused if what is left still does not fit: no broker accepts a message that large.
    """
    kept = {name: value for name, value in pairs.items() if name != Property.CRC32}
    raw = rejoin_properties(kept)
    for name in (*EXPENDABLE, *also):
        if len(raw) <= MAX_PARKED_BYTES:
            return raw
        if kept.pop(name, None) is not None:
            raw = rejoin_properties(kept)
    return _within(raw, wait, MAX_PARKED_BYTES)


def _within(raw: bytes, wait: str, limit: int) -> bytes:
    if len(raw) > limit:
        raise RequestRefused(
            f"the message is illegal: with those of its {wait}, its properties take {len(raw)} bytes, "
            f"the limit is {limit}",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return raw
