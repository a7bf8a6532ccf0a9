"""Pops over remoting: requests 200050 to 200054 and 200151 to the brokers of a topic, and what they answer."""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ... import logs
from ...errors import Malformed
from ...model import names
from ...model.codes import ResponseCode
from ...model.pop_names import popped_topic
from ...model.receipt import Receipt
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.bodies.offsets import BatchAck, BatchAckMessageRequestBody
from ...protocol.headers.pop import AckMessage, ChangeInvisibleTime, Notification, PopMessage
from ...protocol.messages import read_messages
from ...protocol.requests import RequestCode
from ..connect.answers import bad_answer
from ..connect.session import Session
from ..consume.send_back import ConsumerSendBack
from ..core.retry import Retry
from ..errors import NoBroker, ReceiptExpired, Refused
from ..received import give_topic_back
from .pop_answers import count_repeats, receipts_of
from .pop_calls import ANY_QUEUE, Handed, PopRequest
from .popped import Popped

log = logs.get("pyromq.client")

_ANSWER_S = 10.0  # on top of the time for which a broker may hold a request
_FOUND = (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL)
_MOST_BIT = 1 << 16  # of one entry of a batch ack: an answer that spans more offsets is acknowledged one by one


class RemotingPops:
    """Event loop only. One per consumer."""

    is_cancellable = is_renewing = False

    def __init__(self, session: Session, group: str, retry: Retry) -> None:
        self._session = session
        self._group = group
        self._send_back = ConsumerSendBack(session, group, retry)
        self._without_batches: set[str] = set()  # addresses of brokers that take no batch acks

    async def places(self, topic: str) -> list[MessageQueue]:
        route = await self._session.route(topic)
        brokers = {queue.broker_name for queue in route.readable}
        found = [
            MessageQueue(broker_name=name, queue_id=ANY_QUEUE, topic=topic)
            for name in sorted(brokers)
            if route.master(name) is not None
        ]
        if not found:
            self._session.refresh_routes()
            hint = "Are its masters running (mqadmin clusterList), and does its permission allow reading?"
            raise NoBroker(f"topic {topic!r} has no broker that hands out messages", hint=hint)
        return found

    async def begin(self, request: PopRequest) -> list[Handed]:
        """Return what is there now. The broker notes where a new group begins."""
        return await self.pop(replace(request, hold_s=0.0))

    async def pop(self, request: PopRequest) -> list[Handed]:
        place, wanted = request.place, request.wanted
        address = await self._address(place)
        header = PopMessage(
            consumer_group=self._group,
            topic=place.topic,
            queue_id=place.queue_id,
            max_msg_nums=request.most,
            invisible_time=round(request.invisible_s * 1000),
            poll_time=round(request.hold_s * 1000),
            born_time=0,  # the broker's clock counts, which may be another
            init_mode=0 if request.from_first else 1,
            exp_type=wanted.expression_type,
            exp=wanted.expression,
            order=request.is_ordered,
            attempt_id=request.attempt or None,
            bname=place.broker_name,
        )
        timeout_s = request.hold_s + _ANSWER_S
        answer = await self._session.ask(address, RequestCode.POP_MESSAGE, header, timeout_s=timeout_s, expected=_FOUND)
        if answer.code != ResponseCode.SUCCESS:
            return []
        found = read_messages(answer.command.body)
        if found.broken:
            text = "the answer to a pop breaks off: its rest comes again after the invisible time"
            log.warning(text, group=self._group, place=str(place), read=len(found.messages), fault=found.broken)
        try:
            receipts = receipts_of(answer.header, found.messages, place.broker_name)
            if request.is_ordered:
                count_repeats(answer.header, found.messages)
        except Malformed as fault:
            raise bad_answer(address, str(fault)) from None
        if names.is_retry(place.topic):
            for each in found.messages:
                give_topic_back(each, self._group)
        return [
            Handed(message, _queue(place, message.queue_id), receipt)
            for message, receipt in zip(found.messages, receipts, strict=True)
        ]

    async def watch(self, request: PopRequest) -> bool:
        place, wanted = request.place, request.wanted
        header = Notification(
            consumer_group=self._group,
            topic=place.topic,
            queue_id=place.queue_id,
            poll_time=round(request.hold_s * 1000),
            born_time=self._session.clock.now_ms(),
            order=request.is_ordered,
            attempt_id=request.attempt or None,
            exp_type=wanted.expression_type,
            exp=wanted.expression,
            bname=place.broker_name,
        )
        timeout_s = request.hold_s + _ANSWER_S
        address = await self._address(place)
        answer = await self._session.ask(address, RequestCode.NOTIFICATION, header, timeout_s=timeout_s)
        return answer.header.has_msg

    async def ack(self, messages: Sequence[Popped]) -> None:
        address = await self._address(messages[0].queue)
        if len(messages) > 1 and address not in self._without_batches:
            rest = await self._ack_together(address, messages)
        else:
            rest = list(messages)
        for each in rest:
            receipt: Receipt = each.receipt
            header = AckMessage(
                consumer_group=self._group,
                topic=self._topic(each),
                queue_id=receipt.queue_id,
                extra_info=receipt.encode(),
                offset=receipt.offset,
                bname=receipt.broker,
            )
            await self._session.ask(address, RequestCode.ACK_MESSAGE, header)

    async def _ack_together(self, address: str, messages: Sequence[Popped]) -> list[Popped]:
        """Acknowledge by one request. Return those that need one each: an old broker takes no batches."""
        entries, rest = self._batches(messages)
        body = BatchAckMessageRequestBody(acks=entries, broker_name=messages[0].queue.broker_name)
        try:
            await self._session.ask(address, RequestCode.BATCH_ACK_MESSAGE, None, body)
        except Refused as fault:
            if fault.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self._without_batches.add(address)
            return list(messages)
        return rest

    def _batches(self, messages: Sequence[Popped]) -> tuple[list[BatchAck], list[Popped]]:
        bits: dict[tuple[str, Receipt], bytearray] = defaultdict(bytearray)
        rest = []
        for each in messages:
            receipt: Receipt = each.receipt
            bit = receipt.offset - receipt.start
            if not 0 <= bit < _MOST_BIT:
                rest.append(each)
                continue
            mask = bits[each.queue.topic, receipt._replace(offset=0)]
            mask.extend(bytes(max(0, bit // 8 + 1 - len(mask))))
            mask[bit // 8] |= 1 << bit % 8
        entries = [
            BatchAck(
                b=b64encode(mask).decode(),
                c=self._group,
                it=receipt.invisible_ms,
                pt=receipt.pop_time,
                q=receipt.queue_id,
                r=receipt.retry,
                rq=receipt.revive_queue,
                so=receipt.start,
                t=topic,
            )
            for (topic, receipt), mask in bits.items()
        ]
        return entries, rest

    async def change(self, message: Popped, seconds: float, *, counts: bool) -> Receipt:
        receipt: Receipt = message.receipt
        header = ChangeInvisibleTime(
            consumer_group=self._group,
            topic=self._topic(message),
            queue_id=receipt.queue_id,
            extra_info=receipt.encode(),
            offset=receipt.offset,
            invisible_time=round(seconds * 1000),
            suspend=not counts,
            bname=receipt.broker,
        )
        address = await self._address(message.queue)
        try:
            answer = (await self._session.ask(address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)).header
        except Refused as fault:
            if fault.code != ResponseCode.NO_MESSAGE:
                raise
            text = f"message {message.id} is not this consumer's any more: it was acknowledged, or comes again"
            raise ReceiptExpired(text, hint="Use each message once: ack, later or dead_letter") from None
        return receipt._replace(
            start=receipt.offset,
            pop_time=answer.pop_time,
            invisible_ms=answer.invisible_time,
            revive_queue=answer.revive_qid,
        )

    async def dead_letter(self, message: Popped, reason: str) -> None:
        await self._send_back.dead_letter(message, reason)
        await self.ack([message])

    async def _address(self, place: MessageQueue) -> str:
        route = await self._session.route(place.topic)
        address = route.master(place.broker_name)
        if address is None:
            self._session.refresh_routes()
            raise NoBroker(
                f"broker {place.broker_name!r} has no master now", hint="Is it running (mqadmin clusterList)?"
            )
        return address

    def _topic(self, message: Popped) -> str:
        """Return the topic that it was popped from, which may be a retry topic."""
        return popped_topic(message.queue.topic, self._group, message.receipt.retry)


def _queue(place: MessageQueue, queue_id: int) -> MessageQueue:
    return MessageQueue(broker_name=place.broker_name, queue_id=queue_id, topic=place.topic)
