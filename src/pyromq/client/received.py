"""A message as a consumer gets it, and handlers brought to one shape: `async (Received) -> value`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from ..model.ids import host_text
from ..model.message import Property, StoredMessage
from ..protocol.bodies.keyed import MessageQueue
from .values import decode_value

T = TypeVar("T")
Handler = Callable[..., Any]


class Received:
    """One delivery. `message` has everything that RocketMQ knows of it."""

    __slots__ = ("message", "queue")

    def __init__(self, message: StoredMessage, queue: MessageQueue) -> None:
        self.message = message
        self.queue = queue

    def __repr__(self) -> str:
        return f"<Received {self.topic} {self.id} attempt {self.attempt}, {len(self.body)} bytes>"

    @property
    def topic(self) -> str:
        """Where it was sent to, also when it comes again by way of a retry topic."""
        return self.message.properties.get(Property.RETRY_TOPIC, self.message.topic)

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def id(self) -> str:
        """The producer's id for it, the same for every delivery."""
        found = self.message.unique_id or self.message.properties.get(Property.ORIGIN_MESSAGE_ID)
        return found or self.message.offset_id

    @property
    def tag(self) -> str:
        return self.message.tags

    @property
    def keys(self) -> list[str]:
        return self.message.keys

    @property
    def properties(self) -> dict[str, str]:
        return self.message.properties

    @property
    def order_key(self) -> str | None:
        return self.message.properties.get(Property.SHARDING_KEY)

    @property
    def attempt(self) -> int:
        """1 for the first delivery."""
        return self.message.reconsume_times + 1

    @property
    def offset(self) -> int:
        return self.message.queue_offset

    @property
    def born_ms(self) -> int:
        return self.message.born_timestamp

    @property
    def stored_ms(self) -> int:
        return self.message.store_timestamp

    @property
    def born_host(self) -> str:
        return host_text(self.message.born_host)

    def decode(self, kind: type[T]) -> T:
        """The body as a value: bytes, str, or JSON read into dataclasses, msgspec and pydantic models, dicts."""
        return decode_value(self.body, kind)


@dataclass(frozen=True, slots=True)
class Handling:
    """A handler in one shape. One that blocks has threads of its own, which nothing can cancel."""

    run: Callable[[Received], Awaitable[Any]]
    threads: ThreadPoolExecutor | None = None

    @property
    def is_blocking(self) -> bool:
        return self.threads is not None

    def close(self) -> None:
        """The handlers have ended."""
        if self.threads is not None:
            self.threads.shutdown(wait=False)


def adapt(handler: Handler, concurrency: int = 1) -> Handling:
    """A handler takes the message, its value by type hint, or both: `(msg)`, `(order: Order)`, `(order: Order, msg)`.

    A plain function runs in one of `concurrency` threads, so that it may block.
    """
    hints = _hints(handler)
    names = [each.name for each in inspect.signature(handler).parameters.values() if each.default is each.empty]
    if len(names) not in (1, 2):
        raise TypeError(f"{handler!r} takes {len(names)} arguments: a handler takes (message), (value) or both")
    kind = hints.get(names[0], Received if len(names) == 1 else bytes)
    wants_value = len(names) == 2 or kind not in (Received, Any)

    def arguments(received: Received) -> tuple[Any, ...]:
        if not wants_value:
            return (received,)
        value = received.decode(kind)
        return (value, received) if len(names) == 2 else (value,)

    async def run(received: Received) -> Any:
        return await handler(*arguments(received))

    if _is_async(handler):
        return Handling(run)
    threads = ThreadPoolExecutor(concurrency, "pyromq-handler")  # a thread begins with the first message

    async def run_in_thread(received: Received) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, handler, *arguments(received))

    return Handling(run_in_thread, threads)


def _hints(handler: Handler) -> dict[str, Any]:
    target = handler if inspect.isroutine(handler) else handler.__call__  # type: ignore[operator]
    return get_type_hints(target)


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
