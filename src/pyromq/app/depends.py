"""Parameters of a handler that functions provide: `Depends(function)` as a parameter's default.

    async def session(msg: pyromq.Received) -> AsyncIterator[Session]:
        async with Session(msg.id) as made:
            yield made                          # what follows is done after the message

    @app.subscriber("orders", group="billing")
    async def bill(order: Order, db: Session = Depends(session)) -> None: ...

A function is called once for a message, whoever depends on it. It may take the message, by type hint, and depend on
others. Functions and generators are plain or async; those of a plain handler are plain, and run in its thread. A
generator sees the exception of a handler that fails, and cannot make a success of it. One decorated by contextmanager
or asynccontextmanager is the same.
"""

from __future__ import annotations

import inspect
from collections import UserDict
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..client.errors import Error
from ..client.handle.handlers import functions_of, hints_of, is_async, is_context
from ..client.received import Received

Provider = Callable[..., Any]
Overrides = Mapping[Provider, Provider]


@dataclass(frozen=True, slots=True)
class Dependency:
    provider: Provider


def Depends(provider: Provider) -> Any:  # noqa: N802 - the name by which FastAPI and FastStream have it
    """Return a parameter's default: the parameter gets what the function returns, or what the generator yields."""
    return Dependency(provider)


class OverrideTable(UserDict[Provider, Provider]):
    """Functions in `Depends(...)`, and those that tests put in their place. Anything else is refused at once."""

    def __setitem__(self, declared: Provider, provider: Provider) -> None:
        for each in (declared, provider):
            if not callable(each):
                hint = "Write app.overrides[session] = fake_session"
                raise Error(f"overrides takes two functions, and {each!r} is none", hint=hint)
        super().__setitem__(declared, provider)


@lru_cache(maxsize=1024)  # asked for each message, and a signature takes its time
def dependencies(function: Provider) -> Mapping[str, Provider]:
    """Return the parameters of a function that others provide, and these."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default.provider for each in parameters if isinstance(each.default, Dependency)}


def check_dependencies(
    function: Provider, may_await: bool, overrides: Overrides, within: tuple[Provider, ...] = ()
) -> None:
    """Raise Error for functions that cannot provide: in a circle, async for a plain handler, of unknown parameters."""
    for declared in dependencies(function).values():
        provider = overrides.get(declared, declared)
        name = getattr(provider, "__qualname__", repr(provider))
        if provider in within:
            raise Error(f"Depends({name}) depends on itself", hint="Divide it, so that one of the two needs no other")
        if not may_await and (is_async(provider) or _is_generator(provider, is_async=True)):
            raise Error(f"Depends({name}) is async, and its handler is a plain function", hint="Make both alike")
        unknown = _unknown_parameters(provider)
        if unknown:
            hint = "It may take the message (msg: pyromq.Received), Depends(...), and parameters with a default"
            raise Error(f"Depends({name}) takes {', '.join(unknown)}, which nobody provides", hint=hint)
        check_dependencies(provider, may_await, overrides, (*within, provider))


@dataclass(slots=True, eq=False)
class Provision:
    """What is provided for one message, each provider called once."""

    message: Received
    overrides: Overrides
    made: dict[Provider, Any] = field(default_factory=dict)

    async def provide(self, function: Provider, stack: AsyncExitStack) -> dict[str, Any]:
        """Return the arguments for a function's dependencies; generators end with the stack."""
        found: dict[str, Any] = {}
        for name, declared in dependencies(function).items():
            provider = self.overrides.get(declared, declared)
            if provider not in self.made:
                arguments = self._message_arguments(provider) | await self.provide(provider, stack)
                if _is_generator(provider, is_async=True):
                    made = await _enter(_context(provider, asynccontextmanager)(**arguments), stack)
                elif is_async(provider):
                    made = await provider(**arguments)
                else:
                    made = _call(provider, arguments, stack)
                self.made[provider] = made
            found[name] = self.made[provider]
        return found

    def provide_plain(self, function: Provider, stack: ExitStack) -> dict[str, Any]:
        """Return the same for a plain handler, whose dependencies are plain."""
        found: dict[str, Any] = {}
        for name, declared in dependencies(function).items():
            provider = self.overrides.get(declared, declared)
            if provider not in self.made:
                arguments = self._message_arguments(provider) | self.provide_plain(provider, stack)
                self.made[provider] = _call(provider, arguments, stack)
            found[name] = self.made[provider]
        return found

    def _message_arguments(self, provider: Provider) -> dict[str, Received]:
        return dict.fromkeys(_message_parameters(provider), self.message)


def _call(provider: Provider, arguments: dict[str, Any], stack: AsyncExitStack | ExitStack) -> Any:
    if not _is_generator(provider, is_async=False):
        return provider(**arguments)
    generator = _context(provider, contextmanager)(**arguments)

    def leave(*fault: Any) -> None:
        generator.__exit__(*fault)  # whether it re-raises the handler's exception or not: that goes on

    made = generator.__enter__()
    stack.push(leave)
    return made


async def _enter(generator: AbstractAsyncContextManager[Any], stack: AsyncExitStack) -> Any:
    """Enter an async generator, as `_call` does a plain one."""

    async def leave(*fault: Any) -> None:
        await generator.__aexit__(*fault)

    made = await generator.__aenter__()
    stack.push_async_exit(leave)
    return made


@lru_cache(maxsize=1024)
def _is_generator(provider: Provider, *, is_async: bool) -> bool:
    """Return whether what a call makes is entered and left: of a generator, or of one that is a context already."""
    is_one = inspect.isasyncgenfunction if is_async else inspect.isgeneratorfunction
    decorator = asynccontextmanager if is_async else contextmanager
    return any(map(is_one, functions_of(provider))) or is_context(provider, [decorator])


def _context(provider: Provider, decorator: Any) -> Provider:
    return provider if is_context(provider) else decorator(provider)


@lru_cache(maxsize=1024)
def _message_parameters(provider: Provider) -> tuple[str, ...]:
    hints = {} if inspect.isclass(provider) else hints_of(provider)
    return tuple(name for name in inspect.signature(provider).parameters if hints.get(name) is Received)


def _unknown_parameters(provider: Provider) -> list[str]:
    known = {*dependencies(provider), *_message_parameters(provider)}
    parameters = inspect.signature(provider).parameters.values()
    needed = [each for each in parameters if each.default is each.empty and each.kind.name[:3] != "VAR"]
    return [each.name for each in needed if each.name not in known]
