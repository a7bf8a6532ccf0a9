"""Messages handed out over gRPC: receive, acknowledge, change the invisible time, forward to the dead letters."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ... import logs
from ...errors import ConnectionLost
from ...model.codes import ResponseCode
from ...model.names import is_retry
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.grpc import v2
from ...transport.http2.calls import GrpcError
from ..connect.answers import bad_answer
from ..errors import NoBroker, Refused, TimedOut, TopicNotFound
from ..pop.pop_calls import ANY_QUEUE, Handed, PopRequest
from ..pop.popped import Popped
from .grpc_calls import check_status, grpc_fault, status_fault
from .grpc_session import GrpcSession
from .messages import received_message

log = logs.get("pyromq.client")

LEAST_POLL_S, MOST_POLL_S = 5.0, 20.0  # what Apache's proxy makes of shorter and longer ones
_ANSWER_S = 3.0
_NO_CAUSE = "ack failed: status is abnormal"


class GrpcReceipt(NamedTuple):
    handle: str
    address: str  # of the server that handed it out


class GrpcPops:
    """Event loop only. One per consumer."""

    is_cancellable = is_renewing = True

    def __init__(self, session: GrpcSession, group: str) -> None:
        self._session = session
        self._calls = session.calls
        self._group = v2.Resource(name=group)
        self._begun: dict[MessageQueue, asyncio.Task[list[Handed]]] = {}  # which wait at their servers

    async def places(self, topic: str) -> list[MessageQueue]:
        """Return one place for each server: which of its brokers has messages is its own affair."""
        if is_retry(topic):
            raise TopicNotFound(f"{topic!r}: servers hand out retries with the topic that they belong to")
        route = await self._session.route(topic)
        brokers: dict[str, set[str]] = defaultdict(set)
        for queue in route.readable:
            brokers[route.addresses[queue.broker_name][0]].add(queue.broker_name)
        if not brokers:
            raise NoBroker(f"topic {topic!r} has no queue that can be read", hint="Does its permission allow it?")
        return [
            MessageQueue(broker_name=min(found), queue_id=ANY_QUEUE, topic=topic)
            for _, found in sorted(brokers.items())
        ]

    async def begin(self, request: PopRequest) -> list[Handed]:
        """Return what is there. A server waits some seconds before it says that there is nothing: it has seen the call
        when it answers a later heartbeat, and the next pop gets what the call brings."""
        sent = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._receive(request, sent))

        def ended(done: asyncio.Task[list[Handed]]) -> None:
            sent.set()
            if not done.cancelled():
                done.exception()  # else asyncio would log it, if the consumer stops before the next pop

        task.add_done_callback(ended)
        await sent.wait()
        if not task.done():
            await self._session.presence.send()
        if task.done():
            return task.result()
        self._begun[request.place] = task
        return []

    async def pop(self, request: PopRequest) -> list[Handed]:
        begun = self._begun.pop(request.place, None)
        return await (self._receive(request, asyncio.Event()) if begun is None else begun)

    async def _receive(self, request: PopRequest, sent: asyncio.Event) -> list[Handed]:
        """Receive; a server that has forgotten us, as one that was restarted, is introduced and asked once more."""
        try:
            return await self._received(request, sent)
        except Refused as fault:
            if fault.code != v2.Code.UNRECOGNIZED_CLIENT_TYPE:
                raise
            await self._session.presence.introduce(fault.address)
            return await self._received(request, sent)

    async def _received(self, request: PopRequest, sent: asyncio.Event) -> list[Handed]:
        place = request.place
        address = await self._address(place)
        await self._session.presence.settings(address)
        poll_s = min(max(request.hold_s, LEAST_POLL_S), MOST_POLL_S)
        wanted = v2.ReceiveMessageRequest(group=self._group, batch_size=request.most, auto_renew=request.is_renewed)
        wanted.message_queue.topic.name = place.topic
        wanted.message_queue.id = place.queue_id
        route = self._session.known_route(place.topic)
        if route is not None and len({queue.broker_name for queue in route.readable}) == 1:
            wanted.message_queue.broker.name = place.broker_name  # of several any one is asked
        kind = v2.FilterType.SQL if request.wanted.sql else v2.FilterType.TAG
        wanted.filter_expression.type, wanted.filter_expression.expression = kind, request.wanted.expression
        wanted.invisible_duration.FromMilliseconds(round(request.invisible_s * 1000))
        wanted.long_polling_timeout.FromMilliseconds(round(poll_s * 1000))
        if request.attempt:
            wanted.attempt_id = request.attempt
        found: list[v2.Message] = []
        limit_s = poll_s + _ANSWER_S
        try:
            async with (
                self._session.clock.timeout(limit_s + _ANSWER_S),
                await self._calls.begin(address, "ReceiveMessage", limit_s) as call,
            ):
                await call.send(wanted.SerializeToString())
                call.half_close()
                sent.set()
                while (got := await call.receive()) is not None:
                    self._take(address, v2.ReceiveMessageResponse.FromString(got), found)
        except (GrpcError, ConnectionLost) as fault:
            raise grpc_fault(address, "ReceiveMessage", fault) from None
        except DecodeError as fault:
            raise bad_answer(address, str(fault)) from None
        except TimeoutError:
            raise TimedOut(f"{address} does not end a receive", address=address) from None
        return [each for message in found if (each := self._handed(message, place, address)) is not None]

    def _take(self, address: str, answer: v2.ReceiveMessageResponse, found: list[v2.Message]) -> None:
        if answer.HasField("message"):
            found.append(answer.message)
        elif answer.HasField("status") and answer.status.code not in (v2.Code.OK, v2.Code.MESSAGE_NOT_FOUND):
            raise status_fault(address, answer.status)

    def _handed(self, message: v2.Message, place: MessageQueue, address: str) -> Handed | None:
        try:
            stored = received_message(message)
        except ValueError as fault:
            log.error("a message cannot be read: it comes again", id=message.system_properties.message_id, fault=fault)
            return None
        queue = MessageQueue(broker_name=place.broker_name, queue_id=stored.queue_id, topic=place.topic)
        return Handed(stored, queue, GrpcReceipt(message.system_properties.receipt_handle, address))

    async def watch(self, request: PopRequest) -> bool:
        """Refuse: the protocol has no such call."""
        raise Refused("no notification over gRPC", code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    async def ack(self, messages: Sequence[Popped]) -> None:
        by_topic: dict[tuple[str, str], list[Popped]] = defaultdict(list)
        for each in messages:
            by_topic[each.receipt.address, each.queue.topic].append(each)
        for (address, topic), some in by_topic.items():
            request = v2.AckMessageRequest(group=self._group, topic=v2.Resource(name=topic))
            for each in some:
                request.entries.add(message_id=each.id, receipt_handle=each.receipt.handle)
            answer = await self._calls.ask(address, "AckMessage", request, v2.AckMessageResponse, self._limit_s)
            if answer.status.code != v2.Code.OK:
                await self._explain(topic, address, answer)

    async def _explain(self, topic: str, address: str, answer: v2.AckMessageResponse) -> None:
        """Raise why an acknowledgement failed: entries say more than the whole answer, and of a broker's refusal no
        server tells more than that there was one."""
        for entry in answer.entries:
            if entry.status.code != v2.Code.OK:
                if entry.status.message.startswith(_NO_CAUSE):
                    await self._session.name_servers.route(topic)  # TopicNotFound, if that is it
                raise status_fault(address, entry.status)
        check_status(address, answer.status)

    async def change(self, message: Popped, seconds: float, *, counts: bool) -> GrpcReceipt:
        receipt: GrpcReceipt = message.receipt
        request = v2.ChangeInvisibleDurationRequest(
            group=self._group,
            topic=v2.Resource(name=message.queue.topic),
            receipt_handle=receipt.handle,
            message_id=message.id,
        )
        request.invisible_duration.FromMilliseconds(round(seconds * 1000))
        if not counts:
            request.suspend = True
        kind = v2.ChangeInvisibleDurationResponse
        answer = await self._calls.ask(receipt.address, "ChangeInvisibleDuration", request, kind, self._limit_s)
        check_status(receipt.address, answer.status)
        return receipt._replace(handle=answer.receipt_handle or receipt.handle)

    async def dead_letter(self, message: Popped, reason: str) -> None:
        """Forward to the dead letters; the protocol has no place for the reason."""
        receipt: GrpcReceipt = message.receipt
        request = v2.ForwardMessageToDeadLetterQueueRequest(
            group=self._group,
            topic=v2.Resource(name=message.queue.topic),
            receipt_handle=receipt.handle,
            message_id=message.id,
            delivery_attempt=message.attempt,
            max_delivery_attempts=message.attempt,
        )
        method, kind = "ForwardMessageToDeadLetterQueue", v2.ForwardMessageToDeadLetterQueueResponse
        answer = await self._calls.ask(receipt.address, method, request, kind, self._limit_s)
        check_status(receipt.address, answer.status)

    @property
    def _limit_s(self) -> float:
        return self._session.config.call_timeout_s

    async def _address(self, place: MessageQueue) -> str:
        route = await self._session.route(place.topic)
        address = route.master(place.broker_name)
        if address is None:
            self._session.refresh_routes()
            raise NoBroker(f"broker {place.broker_name!r} is not there now", hint="Is it running?")
        return address
