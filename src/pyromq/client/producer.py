"""Producers: `send` and its relatives. What is sent with one order key leaves strictly one after another.

Made by `Client.producer`. Queue choice and retries are in `sending.py`, bytes in `outgoing.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from ..model import names
from ..model.codes import RequestCode, ResponseCode
from ..model.message import Property, SysFlag
from ..protocol.headers.send import RecallMessage
from .errors import BadMessage, Closed, Refused, TimedOut
from .handlers import Handler
from .outgoing import BatchItem, Packing, Seconds, message_properties, pack, pack_batch, pack_item, seconds
from .received import Received
from .requests import Replies, reply_properties, reply_topic, request_properties
from .sending import QueueChoice, Sender, SendPolicy, SendResult, by_key
from .session import Session
from .traced_work import Sends, TracedSends, trace_recall
from .tracing import Tracer
from .transactions import Transaction, Transactions

F = TypeVar("F", bound=Handler)

DEFAULT_GROUP = "pyromq_producer"
BATCH_BYTES = 1 << 20
BATCH_MESSAGES = 1024
BATCHES_IN_FLIGHT = 4


@dataclass(slots=True)
class _Lane:
    """Sends of one order key wait here for one another."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Producer:
    """Event loop only. Use it as `async with`, or call `start` and `stop`."""

    def __init__(
        self,
        session: Session,
        group: str = DEFAULT_GROUP,
        policy: SendPolicy | None = None,
        packing: Packing | None = None,
        replies: Replies | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        if (fault := names.group_fault(group)) is not None:
            raise BadMessage(fault, hint="Choose another producer group")
        self._session = session
        self.group = group
        self._packing = packing or Packing()
        policy = policy or SendPolicy()
        self._tracer = tracer
        self._sender = self._traced(Sender(session, group, policy))
        # A reply that could not be pushed is stored all the same: sent again, it would be there twice.
        self._reply_sender = self._traced(Sender(session, group, replace(policy, retries=0)))
        self.transactions = Transactions(session, group, tracer)
        self._replies = replies or Replies()
        self._introduced: set[str] = set()  # topics whose brokers know us, so that replies find us
        self._lanes: dict[str, _Lane] = {}
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_open = False

    def _traced(self, sender: Sender) -> Sends:
        return sender if self._tracer is None else TracedSends(sender, self._tracer, self.group)

    async def start(self) -> None:
        self._session.add_producer(self.group)
        self._is_open = True

    async def stop(self) -> None:
        """Sends in flight are finished first; new ones are refused."""
        if self._is_open:
            self._is_open = False
            await self._idle.wait()
            await self._session.remove_producer(self.group)
            self.transactions.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

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
        message = pack(topic, value, properties, self._packing)
        choose = _choice(order_key, queue)
        async with self._flying(topic, order_key):
            results = await self._sender.send(message, choose, None if timeout is None else seconds(timeout))
            return results[0]

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
        message = pack(topic, value, properties, self._packing)
        async with self._flying(topic, order_key):
            await self._sender.send_oneway(message, _choice(order_key, queue))

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        tag: str | None = None,
        props: Mapping[str, str] | None = None,
        order_key: str | None = None,
        max_batch_bytes: int = BATCH_BYTES,
    ) -> list[SendResult]:
        """All values, many to a request; results in their order. A batch that a broker finds too large is halved.

        Without `order_key` several batches are under way at a time, each to a queue of its own. If one fails, its
        error is raised once the others have ended.
        """
        most = min(max_batch_bytes, self._packing.max_message_bytes)
        batches = _batches(self._items(topic, values, tag, props, order_key), most)
        choose = _choice(order_key, None)
        async with self._flying(topic, order_key):
            if order_key is not None:
                return [result for batch in batches for result in await self._send_batch(topic, batch, choose)]
            return await self._send_batches(topic, batches)

    def _items(
        self, topic: str, values: Iterable[Any], tag: str | None, props: Mapping[str, str] | None, order_key: str | None
    ) -> Iterable[BatchItem]:
        for value in values:
            properties = message_properties(self._session.ids.next(), tag=tag, props=props, order_key=order_key)
            yield pack_item(topic, value, properties, self._packing)

    async def _send_batches(self, topic: str, batches: Iterable[list[BatchItem]]) -> list[SendResult]:
        """`values` may be a generator of millions: only as many batches are made as are under way."""
        tasks: list[asyncio.Task[list[SendResult]]] = []
        running: set[asyncio.Task[list[SendResult]]] = set()
        try:
            for batch in batches:
                if len(running) >= BATCHES_IN_FLIGHT:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    if any(task.exception() for task in done):
                        break
                task = asyncio.get_running_loop().create_task(self._send_batch(topic, batch, None))
                tasks.append(task)
                running.add(task)
        finally:
            await asyncio.gather(*tasks, return_exceptions=True)
        return [result for task in tasks for result in task.result()]

    async def _send_batch(self, topic: str, batch: list[BatchItem], choose: QueueChoice | None) -> list[SendResult]:
        try:
            return await self._sender.send(pack_batch(topic, batch), choose)
        except Refused as fault:
            if fault.code != ResponseCode.MESSAGE_ILLEGAL or len(batch) == 1:
                raise
        half = len(batch) // 2
        first = await self._send_batch(topic, batch[:half], choose)
        return first + await self._send_batch(topic, batch[half:], choose)

    @asynccontextmanager
    async def _flying(self, topic: str, order_key: str | None) -> AsyncIterator[None]:
        if not self._is_open:
            raise Closed("this producer is not started, or stopped", hint="Use it inside its `async with` block")
        self._in_flight += 1
        self._idle.clear()
        try:
            if order_key is None:
                yield
            else:
                async with self._lane(f"{topic}\0{order_key}"):
                    yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    @asynccontextmanager
    async def _lane(self, key: str) -> AsyncIterator[None]:
        """asyncio's lock is fair: who came first is served first, so a retry is never overtaken."""
        lane = self._lanes.setdefault(key, _Lane())
        lane.users += 1
        try:
            async with lane.lock:
                yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[key]

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
            properties[Property.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(max(1, round(seconds(check_after))))
        half = pack(topic, value, properties, self._packing)
        half.sys_flag |= SysFlag.TRANSACTION_PREPARED
        async with self._flying(topic, None):
            results = await self._sender.send(half, _choice(order_key, None))
            async with self.transactions.block(results[0], properties) as transaction:
                yield transaction

    @overload
    def transaction_check(self, topic: str) -> Callable[[F], F]: ...

    @overload
    def transaction_check(self, topic: str, handler: F) -> F: ...

    def transaction_check(self, topic: str, handler: Handler | None = None) -> Any:
        """Who answers when a broker asks about a transaction: True commits, False rolls back, None waits.

        A decorator, or called with the handler (for instance a `TransactionTable`). It takes what consumers' handlers
        take. Every producer of the group needs it: brokers ask any of them, also after a restart.
        """
        if handler is None:
            return lambda given: self.transaction_check(topic, given)
        self.transactions.answer_by(topic, handler)
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
        limit_s, correlation = seconds(timeout), self._session.ids.next()
        properties = message_properties(
            self._session.ids.next(), tag=tag, keys=keys, props=props, order_key=order_key
        ) | request_properties(correlation, self._session.client_id, limit_s)
        message = pack(topic, value, properties, self._packing)
        async with self._flying(topic, order_key):
            with self._replies.expect(correlation) as reply:
                try:
                    async with self._session.clock.timeout(limit_s):
                        await self._introduce(topic)
                        await self._sender.send(message, _choice(order_key, None), limit_s)
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
            await self._session.heartbeat()
            self._introduced.add(topic)

    async def reply(self, request: Received, value: Any) -> SendResult:
        """The answer to a message that came from `request`, pushed to its sender. Refused: nobody waits any more."""
        properties = message_properties(self._session.ids.next()) | reply_properties(request)
        message = pack(reply_topic(request), value, properties, self._packing)
        message.code = RequestCode.SEND_REPLY_MESSAGE_V2
        async with self._flying(message.topic, None):
            return (await self._reply_sender.send(message))[0]

    # --- taking back ----------------------------------------------------------------------------------------------

    async def recall(self, result: SendResult) -> None:
        """Takes back a message whose delivery time has not come. Refused: too late, or recall is not enabled."""
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
            await self._session.call(address, RequestCode.RECALL_MESSAGE, header)
            success = True
        finally:
            if self._tracer is not None:
                trace_recall(self._tracer, group=self.group, result=result, success=success)


def _choice(order_key: str | None, queue: QueueChoice | None) -> QueueChoice | None:
    if order_key is None:
        return queue
    if queue is not None:
        raise BadMessage("order_key chooses the queue, and so does queue", hint="Give one of them")
    if not order_key:
        raise BadMessage("order_key is empty", hint="Leave it out for messages without order")
    return by_key(order_key)


def _batches(items: Iterable[BatchItem], most_bytes: int) -> Iterable[list[BatchItem]]:
    batch: list[BatchItem] = []
    size = 0
    for item in items:
        if batch and (size + item.bytes > most_bytes or len(batch) == BATCH_MESSAGES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.bytes
    if batch:
        yield batch
