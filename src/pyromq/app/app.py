"""An `App` declares what a service consumes and publishes, and runs it.

    app = pyromq.App()

    @app.subscriber("orders", group="billing")
    @app.publisher("invoices")
    async def bill(order: Order) -> dict:
        return {"order": order.id}

    $ pyromq run shop:app --workers 4 --reload

Functions stay what they are: called by a test they publish nothing. How messages come and go is the SDK's matter.
`load_app` finds the app that `pyromq run` names.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from ..client.client import Client, connect
from ..client.connect.background import Lifecycle, first_ended
from ..client.consume.push_consumer import PushConsumer
from ..client.errors import Closed, Error
from ..client.handle.handlers import Handler, arguments_of, is_async
from ..client.keywords import ClientSettings, ConsumeSettings, SendArguments
from ..client.middleware import Middleware
from ..client.produce.producer import DEFAULT_GROUP, Producer
from ..client.produce.sending import SendResult
from ..client.received import Received
from ..client.subscription import Filter
from ..errors import ConfigError

F = TypeVar("F", bound=Handler)
Lifespan = Callable[["App"], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class _Subscription:
    topics: tuple[str, ...]
    group: str
    filter: Filter | None
    replies: bool
    function: Handler
    options: ConsumeSettings


@dataclass(slots=True)
class _RunningApp:
    """What an app has from its start to its stop. Closing `stack` undoes the start, once that has ended."""

    client: Client
    producer: Producer
    consumers: list[PushConsumer] = field(default_factory=list)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def stop_consumers(self) -> None:
        await asyncio.gather(*(each.stop() for each in self.consumers))


class App(Lifecycle):
    """Event loop only, apart from the decorators. One `start` at a time; it may be started again after a stop."""

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        lifespan: Lifespan | None = None,
        producer_group: str = DEFAULT_GROUP,
        **settings: Unpack[ClientSettings],
    ) -> None:
        """`namesrv` and `settings` are those of `pyromq.connect`. `lifespan` is entered before the first message is
        handled and left after the last, with this app as its argument: for pools and other resources."""
        self._namesrv = namesrv
        self._settings = settings
        self._middleware = tuple(middleware)
        self._lifespan = lifespan
        self._producer_group = producer_group
        self._subscriptions: list[_Subscription] = []
        self._publishing: dict[Handler, list[tuple[str, SendArguments]]] = {}  # where what they return goes
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
        if not topics:
            raise Error("subscriber() without a topic", hint="Name one or more")
        if any(each.group == group for each in self._subscriptions):
            hint = "All members of a group need the same subscriptions: give both topics to one, or take two groups"
            raise Error(f"group {group!r} has a subscriber in this app already", hint=hint)

        def declare(function: F) -> F:
            self._subscriptions.append(_Subscription(topics, group, filter, replies, function, options))
            return function

        return declare

    def publisher(self, topic: str, **arguments: Unpack[SendArguments]) -> Callable[[F], F]:
        """Send what the function returns, unless None, before its message is acked.

        `arguments` are those of `Producer.send`: tag, keys, props, order_key, delay ...
        """

        def declare(function: F) -> F:
            self._publishing.setdefault(function, []).append((topic, arguments))
            return function

        return declare

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
        if self._run is not None:
            raise Error("this app runs already")
        async with AsyncExitStack() as stack:
            stack.callback(setattr, self, "_run", None)
            if client is None:
                client = await stack.enter_async_context(connect(self._namesrv, **self._settings))
            producer = client.producer(self._producer_group, middleware=self._middleware)
            run = self._run = _RunningApp(client, await stack.enter_async_context(producer))
            if self._lifespan is not None:
                await stack.enter_async_context(self._lifespan(self))
            stack.push_async_callback(run.stop_consumers)
            for each in self._subscriptions:
                wanted = {topic: each.filter or Filter() for topic in each.topics}
                about: dict[str, Any] = {"group": each.group, "middleware": self._middleware, **each.options}
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

    def _handler_of(self, subscription: _Subscription) -> Handler:
        function, replies = subscription.function, subscription.replies
        publishing = self._publishing.get(function, [])
        if not publishing and not replies:
            return function
        if subscription.options.get("max_batch") is not None:
            hint = "Publish from inside it: await app.publish(...)"
            raise Error(f"{function!r} is a batch handler: what it returns names the messages that failed", hint=hint)
        arguments, loop = arguments_of(function), asyncio.get_running_loop()

        async def pass_on(msg: Received, value: Any) -> None:
            if value is None:
                return
            for topic, about in publishing:
                await self.producer.send(topic, value, **about)
            if replies:
                await self.producer.reply(msg, value)

        async def handle(msg: Received) -> None:
            await pass_on(msg, await function(*arguments(msg)))

        def handle_in_thread(msg: Received) -> None:
            value = function(*arguments(msg))
            asyncio.run_coroutine_threadsafe(pass_on(msg, value), loop).result()

        handler = handle if is_async(function) else handle_in_thread
        handler.__qualname__ = getattr(function, "__qualname__", handler.__qualname__)  # the log names it
        return handler


def load_app(target: str, folder: Path) -> App:
    """Import `module:app` from a folder. A fault inside the module itself comes through with its own traceback."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"{target!r}: name a module and the app in it, like shop:app")
    if "/" in module_name or not all(module_name.split(".")):  # a path, or a relative name: relative to nothing
        raise ConfigError(f"{module_name!r} is no module's name: write it like shop:app, its folder as --dir")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as fault:
        if fault.name is None or not module_name.startswith(fault.name):
            raise  # something that the module itself needs
        raise ConfigError(f"there is no module {module_name!r} in {folder}, nor is it installed") from None
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    near = get_close_matches(attribute, apps, 1) or apps[:1]
    advice = f"Did you mean {module_name}:{near[0]}?" if near else "It has no pyromq.App at all."
    what = "is not there" if found is None else f"is a {type(found).__name__}, not a pyromq.App"
    raise ConfigError(f"{attribute!r} {what} in {module.__file__ or module_name}. {advice}")


def own_part(fault: BaseException) -> str:
    """Return the traceback of what `load_app` raised, from the module's own first line on."""
    frames = list(traceback.walk_tb(fault.__traceback__))
    own = next((at for at, (frame, _) in enumerate(frames) if frame.f_code is load_app.__code__), -1) + 1
    while own < len(frames) and "importlib" in frames[own][0].f_code.co_filename:
        own += 1
    rest = fault.__traceback__
    for _ in range(own):
        rest = rest.tb_next if rest is not None else None
    return "".join(traceback.format_exception(type(fault), fault, rest)).rstrip()
