"""Whether a group pulls or pops a topic: request 401."""

from __future__ import annotations

from ..protocol.bodies.body import encode_body
from ..protocol.bodies.heartbeat import SetMessageRequestModeRequestBody
from ..protocol.requests import RequestCode
from .calls import Calls


async def put(calls: Calls, address: str, wanted: SetMessageRequestModeRequestBody) -> None:
    await calls.broker(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_body(wanted))
