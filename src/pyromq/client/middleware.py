"""What may stand around every send and every handler of a client: one small class to derive from.

    class Timing(pyromq.Middleware):
        async def handle(self, messages, call_next):
            began = monotonic()
            outcomes = await call_next(messages)
            print(monotonic() - began)
            return outcomes

The first of a client's list is the outermost. `pyromq.middleware` has ready ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from .arguments import check_kind
from .errors import Error
from .handle.attempts import Attempt, failure
from .handle.handlers import Outcomes, is_context, is_generator
from .produce.sending import SendResult
from .received import Received
from .values import Codec

SendNext = Callable[[list["Draft"]], Awaitable[list[SendResult]]]
HandleNext = Callable[[list[Received]], Awaitable[Outcomes]]


@dataclass(slots=True)
class Draft:
    """A message before it is packed. Middleware may change value, properties (which have its id already) and codec.

    One that is to stand in its place has its codec: `dataclasses.replace(draft, value=...)`.
    """

    topic: str
    value: Any
    properties: dict[str, str]
    codec: Codec


class Middleware:
    """Passes everything through. Override one of the two, or both."""

    async def send(self, drafts: list[Draft], call_next: SendNext) -> list[SendResult]:
        """Stand around a send (several drafts: of `send_many`). Return a result per draft; a one-way send has none."""
        return await call_next(drafts)

    async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
        """Stand around a handler (several messages: a batch). Return for each what went wrong, None where it is done.

        `call_next` may be given fewer messages; it never raises, and has an outcome for each that it was given.
        """
        return await call_next(messages)


def check_middleware(middleware: Sequence[Middleware]) -> tuple[Middleware, ...]:
    """Return the layers. Error for what is none, and for one with a `yield`, which would run nothing."""
    check_kind("middleware", middleware, Iterable, "a list", hint="Write middleware=[pyromq.Idempotence()]")
    layers = tuple(middleware)
    for each in layers:
        hint = f"Write {each.__name__}()" if isinstance(each, type) else "Derive it from pyromq.Middleware"
        check_kind("a middleware", each, Middleware, "an object of a pyromq.Middleware", hint=hint)
        for method in (each.send, each.handle):
            if is_generator(method) or is_context(method):
                raise Error(f"{method!r} has a `yield`: it would never run", hint="Return what `call_next` returned")
    return layers


def around_handling(attempt: Attempt, middleware: Sequence[Middleware]) -> Attempt:
    return reduce(_handling_layer, reversed(middleware), attempt)


def _handling_layer(inner: Attempt, layer: Middleware) -> Attempt:
    async def attempt(messages: Sequence[Received]) -> Outcomes:
        try:
            outcomes = await layer.handle(list(messages), inner)
            if len(outcomes) != len(messages):
                raise TypeError(f"{layer!r} gave {len(outcomes)} outcomes for {len(messages)} messages")
            for each in outcomes:
                if each is not None and not isinstance(each, Exception):
                    raise TypeError(f"{layer!r} gave the outcome {each!r}, which is neither None nor an exception")
        except (Exception, asyncio.CancelledError) as fault:  # of the middleware's: the messages are not done
            return [failure(fault)] * len(messages)
        return outcomes

    return attempt


def around_sending(send: SendNext, middleware: Sequence[Middleware]) -> SendNext:
    return reduce(_sending_layer, reversed(middleware), send)


def _sending_layer(inner: SendNext, layer: Middleware) -> SendNext:
    return lambda drafts: layer.send(drafts, inner)
