"""Messages that wait somewhere else before they reach their topic: delayed ones and halves of transactions.

A park takes a record and its properties and gives back the record to store instead, or None if it is not concerned.
The rooms that read such messages back are not there yet, so today's parks refuse: a message that was accepted and
never delivered would be worse than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..protocol.record import Record
from .message_type import DELAY, LITE, TRANSACTION, message_type

Park: TypeAlias = Callable[[Record, Mapping[str, str]], Record | None]

NOT_YET = {
    DELAY: "delayed messages are not delivered by this broker yet: send it without delay level and timer properties",
    TRANSACTION: "transactions are not served by this broker yet: send the message without TRAN_MSG",
    LITE: "lite topics are not served by this broker yet: send the message without __LITE_TOPIC",
}


def refuse_what_nobody_delivers(record: Record, properties: Mapping[str, str]) -> Record | None:
    """Stands where the parks of timing and transactions will."""
    why = NOT_YET.get(message_type(properties))
    if why is not None:
        raise RequestRefused(why, ResponseCode.MESSAGE_ILLEGAL)
    return None
