"""Producers: `send` and its relatives. What is sent with one order key leaves strictly one after another.

Made by `Client.producer`. Queue choice and retries are in `sending.py`, bytes in `outgoing.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar, overload

from ...model.message import Property, StoredMessage, SysFlag
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.send import RecallMessage
from ...protocol.requests import RequestCode
from ..arguments import Seconds, check_part, check_text, group_fault, kind_fault, milliseconds, seconds, time_limit
from ..connect.lifecycle import Lifecycle
from ..connect.session import Session
from ..consume.handlers import Handler
from ..errors import BadMessage, Closed, TimedOut
from ..middleware import Draft, Middleware, SendNext, around_sending
from ..received import Received
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import MessageSender, TracingSender, trace_recall
from .batches import BATCH_BYTES, BATCH_MESSAGES, AutoBatcher, Batching, BatchSends, batches_of, gathered_parts
from .order_lanes import OrderLanes
from .outgoing import BatchItem, Packing, message_properties, pack, pack_batch, pack_item
from .requests import AwaitedReplies, reply_properties, reply_topic, request_properties
from .sending import QueueChoice, Sender, SendPolicy, SendResult, by_key
from .transactions import ProducerTransactions, Transaction

F = TypeVar("F", bound=Handler)
T = TypeVar("T")

DEFAULT_GROUP = "pyromq_producer"


class Producer(Lifecycle):
    """Event loop only. Use it as `async with`, or call `start` and `stop`."""

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
    ) -> None:
        if (fault := group_fault(group)) is not None:
            raise BadMessage(fault, hint="Choose another producer group")
        check_part("policy", policy, SendPolicy, "retries=3")
        check_part("packing", packing, Packing, "compression=None")
        check_part("batching", batching, Batching, "linger_s=0.005")
        self._session = session
        self.group = group = session.on_wire(group)
        self._packing = packing or Packing()
        policy = policy or SendPolicy()
        self._tracer = tracer
        self._sender = self._traced(Sender(session, group, policy))
        # A reply that could not be pushed is stored all the same: sent again, it would be there twice.
        self._reply_sender = self._traced(Sender(session, group, replace(policy, retries=0)))
        self.transactions = ProducerTransactions(session, group, tracer)
        self._replies = replies or AwaitedReplies()
        self._introduced: set[str] = set()  # topics whose brokers know us, so that replies find us
        self._middleware = tuple(middleware)
        self._lanes = OrderLanes()
        self._batches = BatchSends(self._sender)
        self._gathering = None if batching is None else self._gather_by(batching)
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_open = False

    def _traced(self, sender: Sender) -> MessageSender:
        return sender if self._tracer is None else TracingSender(sender, self._tracer, self.group)

    def _gather_by(self, batching: Batching) -> AutoBatcher:
        async def send(topic: str, order_key: str | None, items: list[BatchItem]) -> list[SendResult]:
            return await self._sender.send(pack_batch(topic, items), _choice(order_key, None))

        return AutoBatcher(self._session.clock, batching, self._packing.max_batch_bytes, self._lanes, send)

    def received(self, message: StoredMessage, queue: MessageQueue) -> Received:
        return Received(message, queue, self._session.config.namespace)

    async def start(self) -> None:
        self._session.heartbeats.add_producer(self.group)
        self._is_open = True

    async def stop(self) -> None:
        """Sends in flight are finished first; new ones are refused."""
        if self._is_open:
            self._is_open = False
            if self._gathering is not None:
                self._gathering.flush()
            await self._idle.wait()
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
        timeout: Seconds | None = None,  # noqa: ASYNC109 - for all attempts together, not only for this await
    ) -> SendResult:
        """Stored, once this returns. With `order_key` in the queue of that key, after all earlier sends with it.

        A `TimedOut` or `Unreachable` send may have been stored all the same; a repeated one has the same `message_id`.
        """
        properties = message_properties(
            self._session.ids.next(),
            tag=tag,
            keys=keys,
            props=props,
            order_key=order_key,
            delay=delay,
            deliver_at_ms=deliver_at_ms,
        )
        choose = _choice(order_key, queue)
        limit_s = None if timeout is None else time_limit("timeout", timeout)
        gathers = self._gathering is not None and all(each is None for each in (queue, timeout, delay, deliver_at_ms))
        if order_key is None and not self._middleware:  # nearly every send: nothing stands in between
            name = self._on_wire(topic)
            self._enter()
            try:
                if gathers and (gathered := self._gathered(name, value, properties, None)) is not None:
                    return await gathered
                return (await self._sender.send(pack(name, value, properties, self._packing), choose, limit_s))[0]
            finally:
                self._leave()

        async def deliver(drafts: list[Draft]) -> list[SendResult]:
            (draft,) = drafts
            name = self._on_wire(draft.topic)
            if gathers and (gathered := self._gathered(name, draft.value, draft.properties, order_key)) is not None:
                return [await gathered]
            message = pack(name, draft.value, draft.properties, self._packing)
            return await self._in_turn(name, order_key, self._sender.send(message, choose, limit_s))

        return (await self._post([Draft(topic, value, properties)], deliver))[0]

    def _on_wire(self, topic: str) -> str:
        if type(topic) is not str:
            check_text("the topic", topic)
        return self._session.on_wire(topic)

    def _gathered(
        self, topic: str, value: Any, properties: dict[str, str], order_key: str | None
    ) -> asyncio.Future[SendResult] | None:
        """None: it is better sent alone, since it is compressed. With an order key all go the same way, in order."""
        assert self._gathering is not None
        item = pack_item(topic, value, properties, self._packing)
        compresses = self._packing.compression is not None and len(item.entry.body) > self._packing.compress_over_bytes
        if compresses and order_key is None:
            return None
        return self._gathering.add(topic, order_key, item)

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
    ) -> None:
        """Written to the connection, never answered: fast, and nobody knows whether it was stored."""
        properties = message_properties(self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key)
        choose = _choice(order_key, queue)

        async def deliver(drafts: list[Draft]) -> list[SendResult]:
            (draft,) = drafts
            message = pack(self._on_wire(draft.topic), draft.value, draft.properties, self._packing)
            await self._in_turn(message.topic, order_key, self._sender.send_oneway(message, choose))
            return []

        await self._post([Draft(topic, value, properties)], deliver)

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
    ) -> list[SendResult]:
        """All values, many to a request; results in their order. A batch that a broker finds too large is halved.

        Without `order_key` several batches are under way at a time, each to a queue of its own. If one fails, its
        error is raised once the others have ended. Values that come one by one (an async iterable) are gathered for
        `linger` at most.
        """
        name = self._on_wire(topic)
        _check_values(values)
        most = min(max_batch_bytes, self._packing.max_batch_bytes)
        choose = _choice(order_key, None)

        def draft(value: Any) -> Draft:
            properties = message_properties(self._session.ids.next(), tag=tag, props=props, order_key=order_key)
            return Draft(topic, value, properties)

        async def deliver(drafts: Iterable[Draft]) -> list[SendResult]:
            batches = batches_of(map(self._item, drafts), most, BATCH_MESSAGES)
            if order_key is None:
                return await self._batches.send_all(name, batches)
            async with self._lanes.turn(name, order_key):
                return [result for batch in batches for result in await self._batches.send(name, batch, choose)]

        if isinstance(values, AsyncIterable):
            parts = gathered_parts(values, seconds(linger), BATCH_MESSAGES, self._session.clock)
            return [each async for part in parts for each in await self._post([draft(one) for one in part], deliver)]
        if self._middleware:
            return [each for part in _parts(values) for each in await self._post([draft(one) for one in part], deliver)]
        with self._flying():
            return await deliver(map(draft, values))

    def _item(self, draft: Draft) -> BatchItem:
        return pack_item(self._on_wire(draft.topic), draft.value, draft.properties, self._packing)

    async def _post(self, drafts: list[Draft], deliver: SendNext) -> list[SendResult]:
        """Through the client's middleware, if it has one."""
        with self._flying():
            return await (around_sending(deliver, self._middleware) if self._middleware else deliver)(drafts)

    async def _in_turn(self, topic: str, order_key: str | None, work: Coroutine[Any, Any, T]) -> T:
        if order_key is None:
            return await work
        try:
            async with self._lanes.turn(topic, order_key):
                return await work
        finally:
            work.close()  # cancelled while it waited: it never began

    @contextmanager
    def _flying(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        if not self._is_open:
            raise Closed("this producer is not started, or stopped", hint="Use it inside its `async with` block")
        self._in_flight += 1
        if self._in_flight == 1:
            self._idle.clear()

    def _leave(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    # --- transactions ---------------------------------------------------------------------------------------------

    @asynccontextmanager
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
    ) -> AsyncIterator[Transaction]:
        """A message that is delivered if this block ends well, and dropped if it raises.

        The broker stores it at once and asks later if it hears nothing (`check_after`, else its transactionTimeOut):
        see `transaction_check`. `order_key` chooses the queue that a committed message comes to.
        """
        properties = message_properties(
            self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key
        ) | {Property.TRAN_MSG: "true", Property.PGROUP: self.group}
        if check_after is not None:
            properties[Property.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(
                max(1, round(milliseconds("check_after", check_after) / 1000))
            )
        choose = _choice(order_key, None)

        async def deliver(drafts: list[Draft]) -> list[SendResult]:
            half = pack(self._on_wire(drafts[0].topic), drafts[0].value, drafts[0].properties, self._packing)
            half.sys_flag |= SysFlag.TRANSACTION_PREPARED
            return await self._sender.send(half, choose)

        with self._flying():
            results = await self._post([Draft(topic, value, properties)], deliver)
            async with self.transactions.block(results[0], properties) as transaction:
                yield transaction

    @overload
    def transaction_check(self, topic: str) -> Callable[[F], F]: ...

    @overload
    def transaction_check(self, topic: str, handler: F) -> F: ...

    def transaction_check(self, topic: str, handler: Handler | None = None) -> Any:
        """Who answers when a broker asks about a transaction: True commits, False rolls back, None waits.

        A decorator, or called with the handler (for instance a `TransactionTable`). It takes what consumers' handlers
        take. Every producer of the group needs it: brokers ask any of them, also after a restart, and also one that
        has sent nothing yet.
        """
        if handler is None:
            return lambda given: self.transaction_check(topic, given)
        name = self._session.on_wire(topic)
        self.transactions.answer_by(name, handler)
        self._session.announce_to_brokers(name)
        return handler

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
        timeout: Seconds = 3.0,  # noqa: ASYNC109 - it travels with the message
    ) -> Received:
        """Sends, and waits for what a consumer gives to `reply`. TimedOut: it may still be working on it."""
        limit_s, correlation = milliseconds("timeout", timeout) / 1000, self._session.ids.next()
        properties = message_properties(
            self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key
        ) | request_properties(correlation, self._session.client_id, limit_s)
        choose = _choice(order_key, None)

        async def deliver(drafts: list[Draft]) -> list[SendResult]:
            (draft,) = drafts
            message = pack(self._on_wire(draft.topic), draft.value, draft.properties, self._packing)
            await self._introduce(message.topic)
            return await self._in_turn(message.topic, order_key, self._sender.send(message, choose, limit_s))

        with self._flying(), self._replies.expect(correlation) as reply:
            try:
                async with self._session.clock.timeout(limit_s):
                    await self._post([Draft(topic, value, properties)], deliver)
                    return await reply
            except TimeoutError:
                raise TimedOut(
                    f"no reply from a consumer of {topic!r} within {limit_s:g} s",
                    hint="Does one run, and does it call `reply`?",
                ) from None

    async def _introduce(self, topic: str) -> None:
        """Brokers find the one who waits for a reply by its heartbeats, so they need one before the first request."""
        if topic not in self._introduced:
            await self._session.route_to_write(topic)
            await self._session.heartbeats.send()
            self._introduced.add(topic)

    async def reply(self, request: Received, value: Any) -> SendResult:
        """The answer to a message that came from `request`, pushed to its sender. Refused: nobody waits any more."""
        if (fault := kind_fault("what to reply to", request, Received, "a message that a handler got")) is not None:
            raise BadMessage(fault)
        properties = message_properties(self._session.ids.next()) | reply_properties(request)

        async def deliver(drafts: list[Draft]) -> list[SendResult]:
            (draft,) = drafts
            message = pack(draft.topic, draft.value, draft.properties, self._packing)
            message.code = RequestCode.SEND_REPLY_MESSAGE_V2
            return await self._reply_sender.send(message)

        return (await self._post([Draft(reply_topic(request), value, properties)], deliver))[0]

    # --- taking back ----------------------------------------------------------------------------------------------

    async def recall(self, result: SendResult) -> None:
        """Takes back a message whose delivery time has not come. Refused: too late, or recall is not enabled."""
        if (fault := kind_fault("what to recall", result, SendResult, "the result of its send")) is not None:
            raise BadMessage(fault, hint="Keep what `send` returned, and give that")
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
                trace_recall(self._tracer, group=self.group, result=result, success=success)


def _choice(order_key: str | None, queue: QueueChoice | None) -> QueueChoice | None:
    if order_key is None:
        return None if queue is None else _checked_choice(queue)
    if queue is not None:
        raise BadMessage("order_key chooses the queue, and so does queue", hint="Give one of them")
    check_text("order_key", order_key)
    if not order_key:
        raise BadMessage("order_key is empty", hint="Leave it out for messages without order")
    return by_key(order_key)


def _checked_choice(queue: QueueChoice) -> QueueChoice:
    hint = "Write for instance queue=lambda queues: queues[0]"
    if not callable(queue):
        raise BadMessage(f"queue is {queue!r}, and not a function that chooses one of the queues", hint=hint)

    def choose(queues: Sequence[MessageQueue]) -> MessageQueue:
        chosen = queue(queues)
        if not isinstance(chosen, MessageQueue):
            raise BadMessage(f"the function given as queue returned {chosen!r}, and none of the queues", hint=hint)
        return chosen

    return choose


def _check_values(values: object) -> None:
    """A text is a row of letters and a dict one of its keys: nobody means that."""
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
        raise BadMessage(
            f"send_many takes a list of values, and not one {type(values).__name__}", hint="Write [value], or use send"
        )
    if not isinstance(values, AsyncIterable) and (
        (fault := kind_fault("what to send", values, Iterable, "a list of values")) is not None
    ):
        raise BadMessage(fault)


def _parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(values)
    while part := list(islice(rest, BATCH_MESSAGES)):
        yield part
