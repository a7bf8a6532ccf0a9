"""Producers: `send` and its relatives. What is sent with one order key leaves strictly one after another.

Made by `Client.producer`. Queue choice and retries are in `sending.py`, bytes in `outgoing.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from ...model.message import Property, StoredMessage, SysFlag
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.send import RecallMessage
from ...protocol.requests import RequestCode
from ..arguments import (
    Seconds,
    check_count,
    check_group,
    check_kind,
    check_part,
    check_text,
    milliseconds,
    seconds,
    time_limit,
)
from ..connect.background import Lifecycle
from ..connect.session import Session
from ..errors import BadMessage, Closed, NotSupported, TimedOut
from ..handle.handlers import Handler, value_type
from ..middleware import Draft, Middleware, SendNext, around_sending
from ..received import Received
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import TracingSender, trace_recall
from ..values import Codec, check_type, choose_codec
from .auto_batcher import AutoBatcher
from .batches import (
    BATCH_BYTES,
    Batching,
    RequestsOfOneCall,
    batches_of,
    check_values,
    gathered_parts,
    parts_of,
    send_batch,
    send_batches,
)
from .outgoing import Outgoing, Packing, message_properties, pack, pack_item
from .queue_choice import OrderLanes, QueueChoice, queue_choice
from .requests import AwaitedReplies, reply_properties, reply_topic, request_properties
from .sending import Sender, SendPolicy, SendResult
from .transactions import ProducerTransactions, Transaction, entered_once

F = TypeVar("F", bound=Handler)
T = TypeVar("T")

DEFAULT_GROUP = "pyromq_producer"  # of all producers that are given none: no transactions

Sending = Coroutine[Any, Any, list[SendResult] | None]  # a one-way send has no results
Send = Callable[[Outgoing], Sending]


class _SendsInFlight:
    """Counts the sends that run inside its block. A closed producer refuses new ones, and waits until it is idle."""

    __slots__ = ("count", "idle", "is_open")

    def __init__(self) -> None:
        self.is_open, self.count = False, 0
        self.idle = asyncio.Event()
        self.idle.set()

    def __enter__(self) -> None:
        if not self.is_open:
            raise Closed("this producer is not started, or stopped", hint="Use it inside its `async with` block")
        self.count += 1
        if self.count == 1:
            self.idle.clear()

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        if not self.count:
            self.idle.set()


class Producer(Lifecycle):
    """Sends messages. Use it as `async with`, or call `start` and `stop`.

    Belongs to the event loop that it was started on; any number of its tasks may send at a time.
    """

    def __init__(
        self,
        session: Session,
        group: str = DEFAULT_GROUP,
        policy: SendPolicy | None = None,
        packing: Packing | None = None,
        replies: AwaitedReplies | None = None,
        tracer: Tracer | None = None,
        *,
        batching: Batching | None = None,
        middleware: Sequence[Middleware] = (),
        codec: Codec | None = None,
    ) -> None:
        check_group(group, "Choose another producer group", BadMessage)
        check_part("policy", policy, SendPolicy, "retries=3")
        check_part("packing", packing, Packing, "compression=None")
        check_part("batching", batching, Batching, "linger_s=0.005")
        self._session = session
        self.group = group = session.on_wire(group)
        self._packing = packing or Packing()
        self._codec = choose_codec(codec, session.config.codec)
        policy = policy or SendPolicy()
        self._tracer = tracer
        self._sender = self._make_sender(policy)
        # A reply that could not be pushed is stored all the same: sent again, it would be there twice.
        self._reply_sender = self._make_sender(replace(policy, retries=0))
        self.transactions = ProducerTransactions(session, group, tracer)
        self._replies = replies or AwaitedReplies()
        self._introduced: set[str] = set()  # topics whose brokers know us, so that replies find us
        self._middleware = tuple(middleware)
        self._lanes = OrderLanes(session.clock)
        self._batcher = (
            AutoBatcher(session.clock, batching, self._packing, self._lanes, self._sender) if batching else None
        )
        self._in_flight = _SendsInFlight()

    def _make_sender(self, policy: SendPolicy) -> Sender:
        if self._tracer is None:
            return Sender(self._session, self.group, policy)
        return TracingSender(self._session, self.group, policy, self._tracer)

    def received(self, message: StoredMessage, queue: MessageQueue) -> Received:
        return Received(message, queue, self._session.config.namespace, codec=self._codec)

    async def start(self) -> None:
        """Register the group; brokers hear of it with the next heartbeat."""
        self._session.heartbeats.add_producer(self.group)
        self._in_flight.is_open = True

    async def stop(self) -> None:
        """Finish the sends in flight, then leave the group. New sends are refused from now on."""
        if self._in_flight.is_open:
            self._in_flight.is_open = False
            if self._batcher is not None:
                self._batcher.flush()
            await self._in_flight.idle.wait()
            await self._session.heartbeats.remove_producer(self.group)
            self.transactions.close()

    # --- sending --------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        props: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: QueueChoice | None = None,
        delay: Seconds | None = None,
        deliver_at_ms: int | None = None,
        delay_level: int | None = None,
        timeout: Seconds | None = None,  # noqa: ASYNC109 - for all attempts together, not only for this await
        codec: Codec | None = None,
    ) -> SendResult:
        """Send one message; it is stored once this returns. Sends with one `order_key` are stored in their order.

        `delay`, `deliver_at_ms` or `delay_level` (an entry of the broker's messageDelayLevel) say when it is delivered.
        `codec` makes its body, in place of the producer's.
        `may_be_stored` of the error that is raised else says whether it may be stored all the same (`TimedOut`,
        `Unreachable`). A send that is repeated has the same `message_id`.
        """
        properties = message_properties(
            self._session.ids.next(),
            tag=tag,
            keys=keys,
            props=props,
            order_key=order_key,
            delay=delay,
            deliver_at_ms=deliver_at_ms,
            delay_level=delay_level,
        )
        choose, codec = queue_choice(order_key, queue), choose_codec(codec, self._codec)
        limit_s = None if timeout is None else time_limit("timeout", timeout)
        batcher = self._batcher
        alone = (queue, timeout, delay, deliver_at_ms, delay_level)
        if batcher is not None and any(each is not None for each in alone):
            batcher = None
        if order_key is None and not self._middleware:  # nearly every send: nothing stands in between
            name = self._on_wire(topic)
            with self._in_flight:
                if batcher is not None and (gathered := batcher.add(name, value, properties, None, codec)) is not None:
                    return await gathered
                out = pack(name, value, properties, self._packing, codec)
                return (await self._sender.send(out, choose, limit_s))[0]

        until = None if limit_s is None else self._session.clock.monotonic() + limit_s

        def send(out: Outgoing) -> Sending:
            return self._sender.send(out, choose, self._left_s(until))

        draft = Draft(topic, value, properties, codec)
        return (await self._post_one(draft, send, order_key, batcher, until))[0]

    def _left_s(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - self._session.clock.monotonic())

    def _on_wire(self, topic: str) -> str:
        if type(topic) is not str:
            check_text("the topic", topic)
        return self._session.on_wire(topic)

    async def send_oneway(
        self,
        topic: str,
        value: Any,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        props: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: QueueChoice | None = None,
        codec: Codec | None = None,
    ) -> None:
        """Send one message without an answer: fast, and nobody knows whether it was stored."""
        properties = message_properties(self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key)
        choose = queue_choice(order_key, queue)
        draft = Draft(topic, value, properties, choose_codec(codec, self._codec))
        await self._post_one(draft, lambda out: self._sender.send_oneway(out, choose), order_key)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        *,
        tag: str | None = None,
        props: Mapping[str, str] | None = None,
        order_key: str | None = None,
        max_batch_bytes: int = BATCH_BYTES,
        linger: Seconds = 0.005,
        codec: Codec | None = None,
    ) -> list[SendResult]:
        """Send all values, many to a request. Return the results in their order. A batch that is too large is halved.

        Without `order_key` several batches are under way at a time, each to a queue of its own. If one fails, its
        error is raised once the others have ended. Values that come one by one (an async iterable) are gathered for
        `linger` at most.
        """
        name = self._on_wire(topic)
        check_values(values)
        check_count("max_batch_bytes", max_batch_bytes, example=BATCH_BYTES)
        packing, most = self._packing, min(max_batch_bytes, self._packing.max_batch_bytes)
        choose, codec = queue_choice(order_key), choose_codec(codec, self._codec)

        def draft(value: Any) -> Draft:
            properties = message_properties(self._session.ids.next(), tag=tag, props=props, order_key=order_key)
            return Draft(topic, value, properties, codec)

        async def deliver(drafts: Iterable[Draft]) -> list[SendResult]:
            items = (
                pack_item(self._on_wire(each.topic), each.value, each.properties, packing, each.codec)
                for each in drafts
            )
            batches = batches_of(items, most)
            if order_key is None:
                return await send_batches(sender, name, batches)
            async with self._lanes.turn(name, order_key):
                return [each for batch in batches for each in await send_batch(sender, name, batch, choose)]

        with RequestsOfOneCall(self._sender) as sender:
            if isinstance(values, AsyncIterable):
                gathered = gathered_parts(values, seconds(linger), self._session.clock)
                return [each async for part in gathered for each in await self._post([*map(draft, part)], deliver)]
            if self._middleware:
                parts = parts_of(values)
                return [each for part in parts for each in await self._post([*map(draft, part)], deliver)]
            with self._in_flight:
                return await deliver(map(draft, values))

    async def _post(self, drafts: list[Draft], deliver: SendNext) -> list[SendResult]:
        with self._in_flight:
            return await (around_sending(deliver, self._middleware) if self._middleware else deliver)(drafts)

    async def _post_one(
        self,
        draft: Draft,
        send: Send,
        order_key: str | None = None,
        batcher: AutoBatcher | None = None,
        until: float | None = None,
    ) -> list[SendResult]:
        """Send one message, with others in a batch, or alone and in its turn where it has an order key.

        It does not wait for its turn longer than `until`, in seconds of the clock.
        """

        async def deliver(drafts: list[Draft]) -> list[SendResult]:
            (draft,) = drafts
            name, value, about, codec = self._on_wire(draft.topic), draft.value, draft.properties, draft.codec
            if batcher is not None and (gathered := batcher.add(name, value, about, order_key, codec)) is not None:
                return [await gathered]
            out = pack(name, value, about, self._packing, codec)
            if order_key is None:
                return await send(out) or []
            async with self._lanes.turn(name, order_key, self._left_s(until)):
                return await send(out) or []

        return await self._post([draft], deliver)

    # --- transactions ---------------------------------------------------------------------------------------------

    @entered_once
    async def transaction(
        self,
        topic: str,
        value: Any,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        props: Mapping[str, str] | None = None,
        order_key: str | None = None,
        check_after: Seconds | None = None,
        codec: Codec | None = None,
    ) -> AsyncIterator[Transaction]:
        """Store a message that is delivered if this block ends well, and dropped if it raises.

        If the broker hears nothing of the end, it asks later (`check_after`, else its transactionTimeOut), see
        `transaction_check`. `order_key` chooses the queue that a committed message comes to.
        """
        properties = message_properties(
            self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key
        ) | {Property.TRAN_MSG: "true", Property.PGROUP: self.group}
        if check_after is not None:
            properties[Property.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(
                max(1, round(milliseconds("check_after", check_after) / 1000))
            )
        choose, draft = queue_choice(order_key), Draft(topic, value, properties, choose_codec(codec, self._codec))
        self._check_own_group()

        def send_half(half: Outgoing) -> Sending:
            half.sys_flag |= SysFlag.TRANSACTION_PREPARED
            return self._sender.send(half, choose)

        with self._in_flight:
            results = await self._post_one(draft, send_half)
            async with self.transactions.block(results[0], properties) as transaction:
                yield transaction

    @overload
    def transaction_check(self, topic: str) -> Callable[[F], F]: ...

    @overload
    def transaction_check(self, topic: str, handler: F) -> F: ...

    def transaction_check(self, topic: str, handler: Handler | None = None) -> Any:
        """Let the function answer a broker's question after a transaction: True commits, False rolls back, None waits.

        A decorator, or called with the handler (for instance a `TransactionTable`). It takes what consumers' handlers
        take. Every producer of the group needs it: brokers ask any of them, also after a restart, and also one that has
        sent nothing yet. So the group must be this service's own: the default one is refused.
        """
        if handler is None:
            return lambda given: self.transaction_check(topic, given)
        self._check_own_group()
        check_type(self._codec, value_type(handler), repr(handler))
        name = self._session.on_wire(topic)
        self.transactions.answer_by(name, handler)
        self._session.announce_to_brokers(name)
        return handler

    def _check_own_group(self) -> None:
        """Raise BadMessage in the group that other programs are in too: brokers ask any member about a transaction."""
        if self.group == self._session.on_wire(DEFAULT_GROUP):
            hint = 'Write client.producer("shop") or App(name="shop"), with a name that only this service has'
            raise BadMessage(
                f"transactions need a producer group of their own: of {DEFAULT_GROUP!r} are all producers without a "
                "group, and brokers ask any of them how a transaction ended",
                hint=hint,
            )

    # --- request and reply ----------------------------------------------------------------------------------------

    async def request(
        self,
        topic: str,
        value: Any,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        props: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: QueueChoice | None = None,
        timeout: Seconds = 3.0,  # noqa: ASYNC109 - it travels with the message
        codec: Codec | None = None,
    ) -> Received:
        """Send, and return what a consumer gives to `reply`. TimedOut: the consumer may still be working on it.

        `codec` makes the body, and decodes the reply.
        """
        if not self._session.brings_replies:
            raise NotSupported("replies do not come over gRPC", hint="Connect to a name server instead of endpoints")
        limit_s, correlation = milliseconds("timeout", timeout) / 1000, self._session.ids.next()
        if not limit_s:
            raise BadMessage(f"timeout={timeout!r} leaves no time for a reply", hint="Write timeout=3, or leave it out")
        properties = message_properties(
            self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key
        ) | request_properties(correlation, self._session.client_id, limit_s)
        choose = queue_choice(order_key, queue)
        draft = Draft(topic, value, properties, choose_codec(codec, self._codec))

        async def send(out: Outgoing) -> list[SendResult]:
            await self._introduce(out.topic)
            return await self._sender.send(out, choose, limit_s)

        with self._in_flight, self._replies.expect(correlation) as reply:
            try:
                async with self._session.clock.timeout(limit_s):
                    await self._post_one(draft, send, order_key)
                    answer = await reply
                    answer.codec = draft.codec
                    return answer
            except TimeoutError:
                hint = "Does one run, and does it call `reply`?"
                text = f"no reply from a consumer of {topic!r} within {limit_s:g} s"
                raise TimedOut(text, hint=hint, may_be_stored=True) from None

    async def _introduce(self, topic: str) -> None:
        """Send a heartbeat before the first request: by it brokers find the client that waits for a reply."""
        if topic not in self._introduced:
            await self._session.route_to_write(topic)
            await self._session.heartbeats.send()
            self._introduced.add(topic)

    async def reply(self, request: Received, value: Any, *, codec: Codec | None = None) -> SendResult:
        """Answer a message that came from `request`, by the codec that decodes it or this one.

        Refused: its sender does not wait any more.
        """
        check_kind("what to reply to", request, Received, "a message that a handler got", error=BadMessage)
        properties = message_properties(self._session.ids.next()) | reply_properties(request)

        def send(out: Outgoing) -> Sending:
            out.code = RequestCode.SEND_REPLY_MESSAGE_V2
            return self._reply_sender.send(out)

        draft = Draft(reply_topic(request), value, properties, choose_codec(codec, request.codec))
        return (await self._post_one(draft, send))[0]

    # --- recall ---------------------------------------------------------------------------------------------------

    async def recall(self, result: SendResult) -> None:
        """Take back a message whose delivery time has not come. Refused: too late, or recall is not enabled."""
        hint = "Keep what `send` returned, and give that"
        check_kind("what to recall", result, SendResult, "the result of its send", hint=hint, error=BadMessage)
        if not result.recall_handle:
            raise BadMessage(
                f"message {result.message_id} cannot be recalled: the broker gave no handle for it",
                hint="Only messages with a delivery time can be; the broker must serve timers (RocketMQ 5.3 and later)",
            )
        header = RecallMessage(
            producer_group=self.group,
            topic=result.queue.topic,
            recall_handle=result.recall_handle,
            bname=result.queue.broker_name,
        )
        address = await self._session.master(result.queue)
        success = False
        try:
            await self._session.ask(address, RequestCode.RECALL_MESSAGE, header)
            success = True
        finally:
            if self._tracer is not None:
                trace_recall(self._tracer, self.group, result, success)
