"""The same client for programs without an event loop: each call runs on one loop in a thread of its own, and waits.

    with pyromq.sync.connect("127.0.0.1:9876") as client, client.producer() as producer:
        producer.send("orders", {"id": 1})

Only forwards: names, arguments and errors are those of the async classes. Any thread may call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from ..model.message_trace import MessageTrace
from ..protocol.bodies.keyed import MessageQueue
from . import client as _async
from .arguments import Seconds
from .connect.portal import Portal
from .consume.handlers import Handler
from .consume.pull_consumer import PullConsumer as AsyncPullConsumer
from .consume.push_consumer import PushConsumer as AsyncPushConsumer
from .middleware import Middleware
from .produce.batches import Batching
from .produce.outgoing import Packing
from .produce.producer import DEFAULT_GROUP
from .produce.producer import Producer as AsyncProducer
from .produce.sending import QueueChoice, SendPolicy, SendResult
from .produce.transactions import Transaction
from .received import Received
from .subscription import Filter

T = TypeVar("T")
F = TypeVar("F", bound=Handler)


def connect(namesrv: str | Iterable[str] | None = None, **settings: Any) -> Client:
    """As `pyromq.connect`."""
    return Client(namesrv, **settings)


class Client:
    """As `pyromq.Client`."""

    def __init__(self, namesrv: str | Iterable[str] | None = None, **settings: Any) -> None:
        self._portal = Portal()
        self._made = _async.connect(namesrv, **settings)

    @property
    def client_id(self) -> str:
        return self._made.client_id

    def start(self) -> None:
        self._portal.start()
        self._portal.call(self._made.start())

    def stop(self) -> None:
        try:
            self._portal.call(self._made.stop())
        finally:
            self._portal.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._portal.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def producer(
        self,
        group: str = DEFAULT_GROUP,
        *,
        policy: SendPolicy | None = None,
        packing: Packing | None = None,
        batching: Batching | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Producer:
        made = self._made.producer(group, policy=policy, packing=packing, batching=batching, middleware=middleware)
        return Producer(self._portal, made)

    def push_consumer(
        self,
        topic: str | Mapping[str, Filter],
        handler: Handler,
        *,
        group: str,
        filter: Filter | None = None,
        **options: Any,
    ) -> PushConsumer:
        """The handler is a plain function and runs in threads, at most `concurrency` at a time."""
        return PushConsumer(
            self._portal, self._made.push_consumer(topic, handler, group=group, filter=filter, **options)
        )

    def subscribe(self, topic: str, *, group: str, filter: Filter | None = None, **options: Any) -> Callable[[F], F]:
        return self._made.subscribe(topic, group=group, filter=filter, **options)

    def wait(self) -> None:
        self._portal.call(self._made.wait())

    def traces(self, word: str, *, trace_topic: str | None = None) -> list[MessageTrace]:
        return self._portal.call(self._made.traces(word, trace_topic=trace_topic))

    def pull_consumer(self, group: str, *, filter: Filter | None = None, **options: Any) -> PullConsumer:
        return PullConsumer(self._portal, self._made.pull_consumer(group, filter=filter, **options))


class _Started:
    """`with` for what has an async start and stop."""

    def __init__(self, portal: Portal, made: AsyncProducer | AsyncPushConsumer | AsyncPullConsumer) -> None:
        self._portal = portal
        self.__made = made

    def start(self) -> None:
        self._portal.call(self.__made.start())

    def stop(self) -> None:
        self._portal.call(self.__made.stop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self.__made.__aexit__(kind, fault, trace))


class Producer(_Started):
    """As `pyromq.Producer`."""

    def __init__(self, portal: Portal, made: AsyncProducer) -> None:
        super().__init__(portal, made)
        self._made = made

    def send(
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
        timeout: Seconds | None = None,
    ) -> SendResult:
        return self._portal.call(
            self._made.send(
                topic,
                value,
                tag=tag,
                keys=keys,
                props=props,
                order_key=order_key,
                queue=queue,
                delay=delay,
                deliver_at_ms=deliver_at_ms,
                timeout=timeout,
            )
        )

    def send_oneway(
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
        self._portal.call(
            self._made.send_oneway(topic, value, tag=tag, keys=keys, props=props, order_key=order_key, queue=queue)
        )

    def send_many(self, topic: str, values: Iterable[Any], **arguments: Any) -> list[SendResult]:
        return self._portal.call(self._made.send_many(topic, values, **arguments))

    @contextmanager
    def transaction(self, topic: str, value: Any, **arguments: Any) -> Iterator[Transaction]:
        block = self._made.transaction(topic, value, **arguments)
        transaction = self._portal.call(block.__aenter__())
        try:
            yield transaction
        except BaseException as fault:
            self._portal.call(block.__aexit__(type(fault), fault, fault.__traceback__))
            raise
        self._portal.call(block.__aexit__(None, None, None))

    def transaction_check(self, topic: str, handler: F) -> F:
        return self._portal.do(lambda: self._made.transaction_check(topic, handler))

    def request(self, topic: str, value: Any, **arguments: Any) -> Received:
        return self._portal.call(self._made.request(topic, value, **arguments))

    def reply(self, request: Received, value: Any) -> SendResult:
        return self._portal.call(self._made.reply(request, value))

    def recall(self, result: SendResult) -> None:
        self._portal.call(self._made.recall(result))


class PushConsumer(_Started):
    """As `pyromq.PushConsumer`."""

    def __init__(self, portal: Portal, made: AsyncPushConsumer) -> None:
        super().__init__(portal, made)
        self._made = made

    @property
    def unreadable(self) -> int:
        return self._made.unreadable

    def wait(self) -> None:
        self._portal.call(self._made.wait())

    def commit(self) -> None:
        self._portal.call(self._made.commit())

    def pause(self) -> None:
        self._made.pause()

    def resume(self) -> None:
        self._made.resume()


class PullConsumer(_Started):
    """As `pyromq.PullConsumer`."""

    def __init__(self, portal: Portal, made: AsyncPullConsumer) -> None:
        super().__init__(portal, made)
        self._made = made

    @property
    def unreadable(self) -> int:
        return self._made.unreadable

    def queues(self, topic: str) -> list[MessageQueue]:
        return self._portal.call(self._made.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        self._portal.call(self._made.assign(queues))

    def subscribe(self, *topics: str) -> None:
        self._portal.call(self._made.subscribe(*topics))

    def __iter__(self) -> Iterator[Received]:
        """One message after another, without end."""
        messages = self._made.__aiter__()
        while True:
            yield self._portal.call(_next_of(messages))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        self._portal.call(self._made.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        self._portal.call(self._made.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        self._portal.call(self._made.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        self._portal.call(self._made.seek_to_time(queue, time_ms))

    def position(self, queue: MessageQueue) -> int:
        return self._made.position(queue)

    def committed(self, queue: MessageQueue) -> int | None:
        return self._portal.call(self._made.committed(queue))

    def poll(self, timeout: Seconds = 5.0) -> list[Received]:
        return self._portal.call(self._made.poll(timeout))

    def commit(self) -> None:
        self._portal.call(self._made.commit())


async def _next_of(messages: AsyncIterator[Received]) -> Received:
    return await anext(messages)
