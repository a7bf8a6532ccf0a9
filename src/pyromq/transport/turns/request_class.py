"""How requests share the event loop: each class has its share of a turn, so that a storm of one delays no other.

Which class a code belongs to stands in its row (`protocol/requests.py`); an unknown code is administration.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.headers.send import SendMessage, SendMessageV2
from ...protocol.requests import ROWS, RequestCode
from ...protocol.row import RequestClass

# How many requests of each class one turn of the loop serves at most.
SHARES: Mapping[RequestClass, int] = {
    RequestClass.HEARTBEAT: 32,
    RequestClass.SEND: 64,
    RequestClass.PULL: 64,
    RequestClass.QUERY: 32,
    RequestClass.ADMIN: 8,
}

_CLASS_OF = {code: row.lane for code, row in ROWS.items()}

# Where a send carries its message properties: the short header form has one-letter names.
PROPERTIES_FIELD: Mapping[int, str] = {
    code: "i" if row.takes.header is SendMessageV2 else "properties"
    for code, row in ROWS.items()
    if row.takes.header in (SendMessage, SendMessageV2)
}

_REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


def class_of(code: int) -> RequestClass:
    return _CLASS_OF.get(code, RequestClass.ADMIN)


def keeps_order(code: int) -> bool:
    """Return whether later sends of a connection wait until this request is finished.

    A reply does not count: it is finished when the client that waits for it has answered, and where that client is on
    the same connection, its answer would never be read.
    """
    return class_of(code) is RequestClass.SEND and code not in _REPLIES
