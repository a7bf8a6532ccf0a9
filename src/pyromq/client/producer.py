"""Producers: `send` and its relatives. What is sent with one order key leaves strictly one after another.

Made by `Client.producer`. Queue choice and retries are in `sending.py`, bytes in `outgoing.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from ..model import names
from ..model.codes import ResponseCode
from .errors import BadMessage, Closed, NotSupported, Refused
from .outgoing import BatchItem, Packing, Seconds, message_properties, pack, pack_batch, pack_item, seconds
from .sending import QueueChoice, Sender, SendPolicy, SendResult, by_key
from .session import Session

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
    ) -> None:
        if (fault := names.group_fault(group)) is not None:
            raise BadMessage(fault, hint="Choose another producer group")
        self._session = session
        self.group = group
        self._packing = packing or Packing()
        self._sender = Sender(session, group, policy or SendPolicy())
        self._lanes: dict[str, _Lane] = {}
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_open = False

    async def start(self) -> None:
        self._session.add_producer(self.group)
        self._is_open = True

    async def stop(self) -> None:
        """Sends in flight are finished first; new ones are refused."""
        if self._is_open:
            self._is_open = False
            await self._idle.wait()
            await self._session.remove_producer(self.group)

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

    # --- not yet --------------------------------------------------------------------------------------------------

    def transaction(self, topic: str, value: Any) -> Any:
        raise NotSupported("transactions are not there yet", hint="Send the message after your own commit")

    def request(self, topic: str, value: Any) -> Any:
        raise NotSupported("request and reply is not there yet", hint="Let the other side answer on a topic of yours")


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
