"""Requests 324 and 325: the reply to a request message. It is pushed to the client that waits for it, then stored.

The waiting client is a producer, known by its heartbeats; it is found by the id in REPLY_TO_CLIENT. Storing is
`handler.py`'s work. A reply that could not be pushed is stored all the same, and its sender gets the failure.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...ambient import Clock
from ...config import Live
from ...errors import CallFailed, RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.command import ONEWAY_FLAG, Command
from ...protocol.headers.send import PushReplyMessage, SendMessage
from ...protocol.properties import decode_properties, rejoin_properties
from ...protocol.requests import RequestCode
from ...transport.dispatch import Handler, Reply, Request, RequestOf, await_answer
from ..clients.producers import Producers
from ..config import BrokerConfig

PUSH_S = 10.0
_AS_SENT: dict[int, int] = {
    RequestCode.SEND_REPLY_MESSAGE: RequestCode.SEND_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2: RequestCode.SEND_MESSAGE_V2,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplyHandler:
    """Event loop only. `send` stores a message and answers for it; `address` is the broker's."""

    live: Live[BrokerConfig]
    clock: Clock
    producers: Producers
    send: Handler
    address: str

    async def __call__(self, request: RequestOf[SendMessage, bytes]) -> Reply | None:
        header = request.header
        fault = await self._push(request, header)
        if self.live.config.store_reply_message_enable:
            return await self._store(request, fault)
        if fault is not None:
            raise RequestRefused(fault)
        return Reply(fields=self._region() | {"msgId": "0", "queueId": str(header.queue_id), "queueOffset": "0"})

    async def _push(self, request: Request, header: SendMessage) -> str | None:
        """Push the reply to the client that waits for it. Return why that failed, None if it arrived."""
        pairs = decode_properties(header.properties or "")
        client = pairs.get(Property.REPLY_TO_CLIENT)
        if not client:
            return f"the reply does not say who waits for it: property {Property.REPLY_TO_CLIENT} is missing"
        peer = self.producers.find_client(client)
        if peer is None or not peer.is_open:
            return f"push reply message fail: client {client} is not connected to this broker"
        fields = self._pushed(request, header, pairs).to_fields()
        command = Command(code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields=fields, body=request.raw_body)
        try:
            answer = await peer.call(command, PUSH_S)
        except CallFailed as failed:
            return f"push reply message to {client} fail: {failed}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client} fail: it answered {answer.code}, {answer.remark}"
        return None

    def _pushed(self, request: Request, header: SendMessage, pairs: dict[str, str]) -> PushReplyMessage:
        now_ms = self.clock.now_ms()
        properties = rejoin_properties(pairs | self._region() | {Property.PUSH_REPLY_TIME: str(now_ms)})
        return PushReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties.decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=bool(header.unit_mode),
            born_host=request.peer.address,
            store_host=self.address,
            store_timestamp=now_ms,
        )

    async def _store(self, request: Request, fault: str | None) -> Reply | None:
        """Store the reply as a message. `send` answers the request, unless pushing failed: then that is the answer."""
        command = msgspec.structs.replace(request.command, code=_AS_SENT[request.command.code])
        if fault is not None:
            command.flag |= ONEWAY_FLAG
        sent: Request = RequestOf(command, request.peer, self.clock.monotonic(), on_answer=request.on_answer)
        answer = await await_answer(self.send(sent))
        if fault is not None:
            raise RequestRefused(fault, fields=self._region())
        return answer

    def _region(self) -> dict[str, str]:
        config = self.live.config
        return {Property.MSG_REGION: config.region_id, Property.TRACE_ON: str(config.trace_on).lower()}
