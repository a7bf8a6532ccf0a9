"""Messages that wait somewhere else before they reach their topic: delayed ones and halves of transactions.

A park takes a record and its properties and gives back the record to store instead, or None if it is not concerned.
Delay levels are parked by `timing.park`, halves by `transactions.park`. Timers and lite topics are refused here: a
message that was accepted and never delivered would be worse than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..protocol.record import Record
from .message_type import DELAY, LITE, delay_level, message_type

Park: TypeAlias = Callable[[Record, Mapping[str, str]], Record | None]

NOT_YET = {
    DELAY: "timers (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS) are not served by this broker yet: send it with "
    "a delay level (DELAY) or without delay",
    LITE: "lite topics are not served by this broker yet: send the message without __LITE_TOPIC",
}


def refuse_what_nobody_delivers(record: Record, properties: Mapping[str, str]) -> Record | None:
    """Stands where the parks of timers and lite topics will."""
    kind = message_type(properties)
    why = NOT_YET.get(kind)
    if why is not None and not (kind == DELAY and delay_level(properties) > 0):
        raise RequestRefused(why, ResponseCode.MESSAGE_ILLEGAL)
    return None
