"""An `App` declares what a service consumes and publishes, and runs it.

    app = pyromq.App()

    @app.subscriber("orders", group="billing")
    @app.publisher("invoices")
    async def bill(order: Order) -> dict:
        return {"order": order.id}

    $ pyromq run shop:app --workers 4 --reload

Functions stay what they are: called by a test they publish nothing. How messages come and go is the SDK's matter.
`loading.py` finds the app that `pyromq run` names.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from .. import logs
from ..client.arguments import check_kind
from ..client.client import Client, connect
from ..client.config import ClientConfig
from ..client.connect.background import Lifecycle, first_ended
from ..client.consume.options import ConsumeOptions
from ..client.consume.push_consumer import PushConsumer
from ..client.errors import Closed, Error
from ..client.handle.handlers import (
    Handler,
    arguments_of,
    check_handler,
    fault_of,
    is_async,
    returned_types,
    settled,
)
from ..client.keywords import ClientSettings, ConsumeSettings, PublishArguments, SendArguments
from ..client.middleware import Middleware, check_middleware
from ..client.produce.producer import DEFAULT_GROUP, Producer
from ..client.produce.sending import SendResult
from ..client.received import Received
from ..client.subscription import Filter
from ..client.values import JSON, Codec, check_type, choose_codec
from .asyncapi import AsyncApi, Document
from .declared import Publication, Subscription, check_publications
from .depends import OverrideTable, Provision, check_dependencies, dependencies
from .replies import Replies
from .settings import check_settings, checked_lifespan

log = logs.get("pyromq.app")

F = TypeVar("F", bound=Handler)
Lifespan = Callable[["App"], AbstractAsyncContextManager[Any]]


@dataclass(slots=True)
class _RunningApp:
    """What an app has from its start to its stop. Closing `stack` undoes the start, once that has ended."""

    client: Client
    producer: Producer
    consumers: list[PushConsumer] = field(default_factory=list)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def stop_consumers(self) -> None:
        """Stop all of them. One that is cancelled goes on by itself: what its handlers use is left after them."""
        stopped = asyncio.gather(*(each.stop() for each in self.consumers))
        try:
            await asyncio.shield(stopped)
        except asyncio.CancelledError:
            await stopped
            raise


class App(Lifecycle):
    """Event loop only, apart from the decorators. One `start` at a time; it may be started again after a stop."""

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        lifespan: Lifespan | None = None,
        producer_group: str | None = None,
        name: str | None = None,
        version: str = "0.1.0",
        **settings: Unpack[ClientSettings],
    ) -> None:
        """`namesrv` and `settings` are those of `pyromq.connect`. `lifespan` is entered before the first message is
        handled and left after the last, with this app as its argument: for pools and other resources. `name` and
        `version` stand in its AsyncAPI document. The name is its producer group too, unless `producer_group` is given:
        transactions need one."""
        check_kind("name", "" if name is None else name, str, "a string")
        check_kind("version", version, str, "a string", hint='Write version="1.0"')
        self.name, self.version = name or "service", version
        self._namesrv = namesrv
        self._settings = settings
        self._middleware = check_middleware(middleware)
        self._lifespan = checked_lifespan(lifespan)
        self._producer_group = producer_group or re.sub(r"[^\w%|-]", "_", name or DEFAULT_GROUP, flags=re.ASCII)
        self._subscriptions: list[Subscription] = []
        self._publishing: dict[Handler, list[Publication]] = {}  # where what they return goes
        self.overrides = OverrideTable()  # of functions in Depends(...): what tests put in their place
        self._run: _RunningApp | None = None

    def subscriber(
        self,
        *topics: str,
        group: str,
        filter: Filter | None = None,
        replies: bool = False,
        **options: Unpack[ConsumeSettings],
    ) -> Callable[[F], F]:
        """Let the function handle the messages of these topics. Options are those of `Client.subscribe`.

        `replies=True`: what it returns goes back to who asked by `producer.request`.
        """
        self._check_stopped()
        if not topics:
            raise Error("subscriber() without a topic", hint="Name one or more")
        if any(each.group == group for each in self._subscriptions):
            hint = "All members of a group need the same subscriptions: give both topics to one, or take two groups"
            raise Error(f"group {group!r} has a subscriber in this app already", hint=hint)

        def declare(function: F) -> F:
            check_handler(function)
            self._subscriptions.append(Subscription(topics, group, filter, replies, function, options))
            return function

        return declare

    def publisher(
        self,
        topic: str,
        *,
        order_key: str | Callable[[Any], str | None] | None = None,
        **arguments: Unpack[PublishArguments],
    ) -> Callable[[F], F]:
        """Send what the function returns, unless None, before its message is acked.

        `order_key` may be a function of what is sent. `arguments` are those of `Producer.send`: tag, keys, delay ...
        """
        self._check_stopped()
        choose_codec(arguments.get("codec"), JSON)  # a wrong one is refused here, and not with the first message

        def declare(function: F) -> F:
            check_handler(function)
            self._publishing.setdefault(function, []).append(Publication(topic, order_key, arguments))
            return function

        return declare

    def check(self) -> None:
        """Raise ConfigError for settings, options and functions with which it cannot start. Nothing is opened."""
        make = partial(connect, self._namesrv, **self._settings)
        client = check_settings("App(...)", self._settings, ClientConfig, make)
        check_settings("App(...)", (), ClientConfig, partial(client.producer, self._producer_group))

        check_publications(self._publishing, [each.function for each in self._subscriptions])

        def declare(subscription: Subscription) -> None:
            self._check_function(subscription)
            wanted = {topic: subscription.filter or Filter() for topic in subscription.topics}
            client.push_consumer(wanted, subscription.function, group=subscription.group, **subscription.options)

        for each in self._subscriptions:
            where = f"subscriber of group {each.group!r}"
            check_settings(where, each.options, ConsumeOptions, partial(declare, each))

    def asyncapi(self) -> AsyncApi:
        """Return the AsyncAPI 3.0 document of what this app receives and sends. ConfigError as of `check`.

        Nothing is opened. Error for a type that has no JSON schema.
        """
        self.check()
        config = connect(self._namesrv, **self._settings).session.config
        document = Document(config, self._codec_of)
        for each in self._subscriptions:
            document.add(each, self._publishing.get(each.function, []))
        return document.made(self.name, self.version)

    @property
    def client(self) -> Client:
        return self._running().client

    @property
    def producer(self) -> Producer:
        return self._running().producer

    async def publish(self, topic: str, value: Any, **arguments: Unpack[SendArguments]) -> SendResult:
        """Send from anywhere in the service, as `Producer.send` does."""
        return await self.producer.send(topic, value, **arguments)

    async def start(self, client: Client | None = None) -> None:
        """Start on a client of its own, or on this one, which is started already (tests)."""
        self._check_stopped()
        check_publications(self._publishing, [each.function for each in self._subscriptions])
        async with AsyncExitStack() as stack:
            stack.callback(setattr, self, "_run", None)
            if client is None:
                client = await stack.enter_async_context(connect(self._namesrv, **self._settings))
            codec = self._settings.get("codec")  # also on a client of the tests', which has not the app's settings
            producer = client.producer(self._producer_group, middleware=self._middleware, codec=codec)
            run = self._run = _RunningApp(client, await stack.enter_async_context(producer))
            if self._lifespan is not None:
                await stack.enter_async_context(self._lifespan(self))
            stack.push_async_callback(run.stop_consumers)
            for each in self._subscriptions:
                wanted = {topic: each.filter or Filter() for topic in each.topics}
                about: dict[str, Any] = {"group": each.group, "middleware": self._middleware, "codec": codec}
                about |= each.options
                run.consumers.append(client.push_consumer(wanted, self._handler_of(each), **about))
                await run.consumers[-1].start()
            run.stack = stack.pop_all()

    async def stop(self) -> None:
        """Finish the handlers that run, commit their offsets, then leave the lifespan."""
        if self._run is not None:
            await self._run.stack.aclose()

    @asynccontextmanager
    async def on(self, client: Client) -> AsyncIterator[Self]:
        """Run the app on a client that runs already, for instance one of the pytest plugin's broker."""
        await self.start(client)
        try:
            yield self
        finally:
            await self.stop()

    async def wait(self, stop_wanted: asyncio.Event | None = None) -> None:
        """Wait while it runs: until the event is set, or a consumer dies, which is raised."""
        stopped = (stop_wanted or asyncio.Event()).wait()
        consumers = [] if self._run is None else self._run.consumers
        await first_ended([*(each.wait() for each in consumers), stopped])

    def _running(self) -> _RunningApp:
        if self._run is None:
            raise Closed("this app does not run", hint="Use `async with app`, or `pyromq run module:app`")
        return self._run

    def _handler_of(self, subscription: Subscription) -> Handler:
        function, replies = subscription.function, subscription.replies
        publishing = self._publishing.get(function, [])
        needs = bool(dependencies(function))
        if not publishing and not replies and not needs:
            return function
        self._check_function(subscription)
        arguments, loop = arguments_of(function), asyncio.get_running_loop()
        answers = Replies(self.producer, logs.Limited(log, self.client.session.clock))

        async def pass_on(msg: Received, work: Awaitable[Any]) -> None:
            if (value := await work) is None:
                return
            if (fault := fault_of(value)) is not None:
                raise fault
            for each in publishing:
                order_key = each.order_key(value) if callable(each.order_key) else each.order_key
                await self.producer.send(each.topic, value, order_key=order_key, **each.arguments)
            if replies:
                await answers.send(msg, value)

        async def handle(msg: Received) -> None:
            if not needs:
                await pass_on(msg, function(*arguments(msg)))
                return
            async with AsyncExitStack() as stack:
                provided = await Provision(msg, self.overrides).provide(function, stack)
                await pass_on(msg, function(*arguments(msg), **provided))

        def handle_in_thread(msg: Received) -> None:
            with ExitStack() as stack:
                provided = Provision(msg, self.overrides).provide_plain(function, stack) if needs else {}
                value = function(*arguments(msg), **provided)
                asyncio.run_coroutine_threadsafe(pass_on(msg, settled(value)), loop).result()

        handler = handle if is_async(function) else handle_in_thread
        handler.__qualname__ = getattr(function, "__qualname__", handler.__qualname__)  # the log names it
        return handler

    def _codec_of(self, about: Mapping[str, Any]) -> Codec:
        return choose_codec(about.get("codec"), choose_codec(self._settings.get("codec"), JSON))

    def _check_stopped(self) -> None:
        if self._run is not None:
            raise Error("this app runs already", hint="Declare subscribers and publishers before, and start it once")

    def _check_types(self, subscription: Subscription) -> None:
        """Raise Error for types of a function that the codecs have no bodies of."""
        function, codec = subscription.function, self._codec_of(subscription.options)
        check_type(codec, subscription.value_type, repr(function))
        codecs = [self._codec_of(each.arguments) for each in self._publishing.get(function, [])]
        for each in [*codecs, *([codec] if subscription.replies else [])]:
            for kind in returned_types(function):
                check_type(each, kind, f"what {function!r} returns")

    def _check_function(self, subscription: Subscription) -> None:
        """Raise Error for what a batch handler cannot have, and for dependencies that cannot be provided."""
        function = subscription.function
        check_dependencies(function, is_async(function), self.overrides)
        self._check_types(subscription)
        if not subscription.is_batch:
            return
        if dependencies(function):
            raise Error(
                f"{function!r} is a batch handler, and Depends(...) is for one message", hint="Leave out max_batch"
            )
        if function in self._publishing or subscription.replies:
            hint = "Publish from inside it: await app.publish(...)"
            raise Error(f"{function!r} is a batch handler: what it returns names the messages that failed", hint=hint)
