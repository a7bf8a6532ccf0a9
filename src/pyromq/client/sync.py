"""The same client for programs without an event loop: each call runs on one loop in a thread of its own, and waits.

    with pyromq.sync.connect("127.0.0.1:9876") as client, client.producer() as producer:
        producer.send("orders", {"id": 1})

Only forwards: names, arguments, documentation and errors are those of the async classes. Any thread may call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from . import client as _async
from .arguments import Seconds
from .connect.background import Lifecycle
from .connect.portal import Portal
from .consume.pull_consumer import PullConsumer as AsyncPullConsumer
from .consume.push_consumer import PushConsumer as AsyncPushConsumer
from .handle.handlers import Handler
from .keywords import ClientSettings
from .middleware import Middleware
from .pop.popped import Popped as AsyncPopped
from .pop.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from .produce.producer import Producer as AsyncProducer
from .produce.transactions import Transaction, TransactionBlock
from .received import Received

A = TypeVar("A", bound=Lifecycle)
B = TypeVar("B", bound=Lifecycle)
F = TypeVar("F", bound=Handler)
M = TypeVar("M", bound=Received)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Blocking(Generic[A]):
    """One object of the async API, and the loop that it lives on."""

    def __init__(self, portal: Portal, target: A) -> None:
        self._portal = portal
        self._target = target

    def start(self) -> None:
        self._portal.call(self._target.start())

    def stop(self) -> None:
        if self._portal.is_running:  # else it was stopped before, which is no fault, as in the async API
            self._portal.call(self._target.stop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._portal.is_running:
            self._portal.call(self._target.__aexit__(kind, fault, trace))


def _waits(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Blocking[A], P], T]:
    @wraps(method)
    def call(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call(method(self._target, *args, **kwargs))

    return call


def _runs(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """Return the twin of a plain method, which runs on the loop's own thread."""

    @wraps(method)
    def call(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.do(lambda: method(self._target, *args, **kwargs))

    return call


def _makes(
    method: Callable[Concatenate[A, P], B], twin: Callable[[Portal, B], R]
) -> Callable[Concatenate[_Blocking[A], P], R]:
    """Return the twin of a method that makes an async object: it makes the blocking one."""

    @wraps(method)
    def call(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return twin(self._portal, method(self._target, *args, **kwargs))

    return call


class _BlockingTransaction(AbstractContextManager[Transaction]):
    def __init__(self, portal: Portal, block: TransactionBlock) -> None:
        self._portal = portal
        self._block = block

    def __enter__(self) -> Transaction:
        return self._portal.call(self._block.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._portal.call(self._block.__aexit__(kind, fault, trace))


class Producer(_Blocking[AsyncProducer]):
    """As `pyromq.Producer`."""

    send = _waits(AsyncProducer.send)
    send_oneway = _waits(AsyncProducer.send_oneway)
    send_many = _waits(AsyncProducer.send_many)
    request = _waits(AsyncProducer.request)
    reply = _waits(AsyncProducer.reply)
    recall = _waits(AsyncProducer.recall)

    def transaction(self, topic: str, value: Any, **arguments: Any) -> AbstractContextManager[Transaction]:
        """Run a transaction as `pyromq.Producer.transaction` does, with its arguments."""
        return _BlockingTransaction(self._portal, self._target.transaction(topic, value, **arguments))

    def transaction_check(self, topic: str, handler: F) -> F:
        """Register a handler as `pyromq.Producer.transaction_check` does."""
        return self._portal.do(lambda: self._target.transaction_check(topic, handler))


class PushConsumer(_Blocking[AsyncPushConsumer]):
    """As `pyromq.PushConsumer`. The handler is a plain function, and runs in up to `concurrency` threads at a time."""

    wait = _waits(AsyncPushConsumer.wait)
    commit = _waits(AsyncPushConsumer.commit)
    pause = _runs(AsyncPushConsumer.pause)
    resume = _runs(AsyncPushConsumer.resume)

    @property
    def unreadable(self) -> int:
        return self._target.unreadable


class PullConsumer(_Blocking[AsyncPullConsumer]):
    """As `pyromq.PullConsumer`."""

    queues = _waits(AsyncPullConsumer.queues)
    assign = _waits(AsyncPullConsumer.assign)
    subscribe = _waits(AsyncPullConsumer.subscribe)
    poll = _waits(AsyncPullConsumer.poll)
    seek = _waits(AsyncPullConsumer.seek)
    seek_to_begin = _waits(AsyncPullConsumer.seek_to_begin)
    seek_to_end = _waits(AsyncPullConsumer.seek_to_end)
    seek_to_time = _waits(AsyncPullConsumer.seek_to_time)
    pause = _runs(AsyncPullConsumer.pause)
    resume = _runs(AsyncPullConsumer.resume)
    position = _runs(AsyncPullConsumer.position)
    committed = _waits(AsyncPullConsumer.committed)
    commit = _waits(AsyncPullConsumer.commit)

    @property
    def unreadable(self) -> int:
        return self._target.unreadable

    def __iter__(self) -> Iterator[Received]:
        """Yield one message after another, without end."""
        messages = self._target.__aiter__()
        while True:
            yield self._portal.call(_next_of(messages))


class Popped(Received):
    """As `pyromq.Popped`."""

    __slots__ = ("_portal", "_target")

    def __init__(self, portal: Portal, target: AsyncPopped) -> None:
        super().__init__(target.message, target.queue, target.namespace, target.group, target.codec, target.ends)
        self._portal, self._target = portal, target

    @property
    def left_s(self) -> float:
        return self._target.left_s

    @property
    def is_expired(self) -> bool:
        return self._target.is_expired

    def ack(self) -> None:
        """Acknowledge the message as `pyromq.Popped.ack` does, and wait for the broker's answer."""
        self._portal.call(_awaited(self._target))

    def later(self, seconds: Seconds, *, counts: bool = True) -> None:
        """Let the message come again as `pyromq.Popped.later` does."""
        self._portal.call(self._target.later(seconds, counts=counts))

    def dead_letter(self, reason: str = "") -> None:
        """Put the message among the dead letters as `pyromq.Popped.dead_letter` does."""
        self._portal.call(self._target.dead_letter(reason))


async def _awaited(message: AsyncPopped) -> None:
    await message.ack()


class SimpleConsumer(_Blocking[AsyncSimpleConsumer]):
    """As `pyromq.SimpleConsumer`."""

    flush = _waits(AsyncSimpleConsumer.flush)

    def receive(self, max: int = 16, wait: Seconds = 15.0, *, invisible: Seconds | None = None) -> list[Popped]:
        """Receive as `pyromq.SimpleConsumer.receive` does."""
        found = self._portal.call(self._target.receive(max, wait, invisible=invisible))
        return [Popped(self._portal, each) for each in found]

    def ack(self, messages: Iterable[Popped]) -> None:
        """Acknowledge all of these as `pyromq.SimpleConsumer.ack` does."""
        self._portal.call(self._target.ack([each._target for each in messages]))

    @property
    def open(self) -> list[Popped]:
        return [Popped(self._portal, each) for each in self._target.open]

    @property
    def unreadable(self) -> int:
        return self._target.unreadable

    def __iter__(self) -> Iterator[Popped]:
        """Yield one message after another, without end. Each is to be acknowledged."""
        messages = self._target.__aiter__()
        while True:
            yield Popped(self._portal, self._portal.call(_next_of(messages)))


async def _next_of(messages: AsyncIterator[M]) -> M:
    return await anext(messages)


class Client(_Blocking[_async.Client]):
    """As `pyromq.Client`."""

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        **settings: Unpack[ClientSettings],
    ) -> None:
        super().__init__(Portal(), _async.connect(namesrv, middleware=middleware, **settings))

    @property
    def client_id(self) -> str:
        return self._target.client_id

    def start(self) -> None:
        self._portal.start()
        try:
            super().start()
        except BaseException:
            self._portal.stop()
            raise

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._portal.stop()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    producer = _makes(_async.Client.producer, Producer)
    push_consumer = _makes(_async.Client.push_consumer, PushConsumer)
    pull_consumer = _makes(_async.Client.pull_consumer, PullConsumer)
    simple_consumer = _makes(_async.Client.simple_consumer, SimpleConsumer)
    subscribe = _runs(_async.Client.subscribe)
    wait = _waits(_async.Client.wait)
    traces = _waits(_async.Client.traces)


def connect(
    namesrv: str | Iterable[str] | None = None,
    *,
    middleware: Sequence[Middleware] = (),
    **settings: Unpack[ClientSettings],
) -> Client:
    """Connect as `pyromq.connect` does."""
    return Client(namesrv, middleware=middleware, **settings)
