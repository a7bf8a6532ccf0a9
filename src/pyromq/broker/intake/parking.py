"""Messages that wait somewhere else before they reach their topic: delayed ones and halves of transactions.

A park takes a record and its properties and gives back the record to store instead, or None if it is not concerned.
Delay levels and timers are parked by `timing`, halves by `transactions`. Lite topics are refused here: a message that
was accepted and never delivered would be worse than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.record import Record
from .message_type import LITE, message_type

Park: TypeAlias = Callable[[Record, Mapping[str, str]], Record | None]

NOT_YET = {
    LITE: "lite topics are not served by this broker yet: send the message without __LITE_TOPIC",
}


def refuse_what_nobody_delivers(record: Record, properties: Mapping[str, str]) -> Record | None:
    """Refuse messages of lite topics, which have no park."""
    why = NOT_YET.get(message_type(properties)) if Property.LITE_TOPIC in properties else None
    if why is not None:
        raise RequestRefused(why, ResponseCode.MESSAGE_ILLEGAL)
    return None
