"""Properties of a message that is put aside, as bytes: with those of its wait, they must still fit. Pure.

A message is put aside by the parks at the door of a send, which refuse it if there is no room for what is added until
it is delivered (`check_room`), and put on by loops, retries and carriers, which give up what only tells of its way
(`shed`): nothing that was accepted may be too large afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.properties import MAX_PROPERTIES_BYTES, rejoin_properties
from ...protocol.record import CRC_PROPERTY_BYTES

ROOM = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES
LATER = 128  # bytes that any wait adds to a message until it is delivered; of a timer, which adds the most, 102

# What a broker writes for people to read, the least wanted first: it goes where a message would have no room with it.
EXPENDABLE = (
    Property.TIMER_ENQUEUE_MS,
    Property.TIMER_DEQUEUE_MS,
    Property.TRANSACTION_CHECK_TIMES,
    Property.CLUSTER,
    Property.TRACE_ON,
    Property.MSG_REGION,
)


def check_room(raw: bytes, wait: str) -> bytes:
    """Return the properties of a message that begins to wait. RequestRefused if what is added later would not fit."""
    return _within(raw, wait, ROOM - LATER)


def shed(pairs: Mapping[str, str], wait: str, also: Iterable[str] = ()) -> bytes:
    """Write them, without the expendable ones, and then without `also`, one after another until the rest fits.

    RequestRefused if all that is left still does not: the message alone is larger than any that a broker accepts.
    """
    kept = {name: value for name, value in pairs.items() if name != Property.CRC32}
    raw = rejoin_properties(kept)
    for name in (*EXPENDABLE, *also):
        if len(raw) <= ROOM:
            return raw
        if kept.pop(name, None) is not None:
            raw = rejoin_properties(kept)
    return _within(raw, wait, ROOM)


def _within(raw: bytes, wait: str, limit: int) -> bytes:
    if len(raw) > limit:
        raise RequestRefused(
            f"the message is illegal: with those of its {wait}, its properties take {len(raw)} bytes, "
            f"the limit is {limit}",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return raw
