"""Users' functions brought to one shape: what they take is told by their signature, what they return by the contract.

A handler takes the message, its value by type hint, or both. With `max_batch` it takes lists of these.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import Error
from ..received import Received
from .threads import HandlerThreads

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)
Outcomes = list[Exception | None]  # of each message: what went wrong with it, None if it is done
Work = Callable[[Sequence[Received]], Coroutine[Any, Any, Any]]  # a batch: its `Outcomes`; one: its value

TAKES = "a handler takes (message), (value) or both"

# Of these nothing has run yet, or nobody waits for their end.
_NOT_RUN = (Awaitable, Future, Generator, AsyncGenerator, _GeneratorContextManager, _AsyncGeneratorContextManager)
_CONTEXTS: Any = (contextmanager, asynccontextmanager)


class ComeAgain(Exception):
    """What a batch handler says of a message by returning it, without a reason of its own."""


@dataclass(frozen=True, slots=True)
class AdaptedHandler:
    """A handler in one shape. One that blocks has threads of its own, which nothing can cancel."""

    run: Work
    threads: HandlerThreads | None = None
    is_batch: bool = False
    name: str = ""

    @property
    def is_blocking(self) -> bool:
        return self.threads is not None

    def close(self) -> None:
        """Release the threads, once the handlers have ended."""
        if self.threads is not None:
            self.threads.close()


def arguments_of(handler: Handler) -> Callable[[Received], tuple[Any, ...]]:
    """Return what a handler takes: `(msg)`, its value by type hint `(order: Order)`, or both `(order: Order, msg)`."""
    names, kind = _first_argument(handler, TAKES)
    hints = hints_of(handler)
    for name in names:
        kind_of = hints.get(name)
        if get_origin(kind_of) in (list, tuple, Sequence, Iterable) and get_args(kind_of)[:1] == (Received,):
            hint = f"Write max_batch=32, or take one message: ({name}: pyromq.Received)"
            raise Error(f"{handler!r} takes a list of messages ({name}), and max_batch is not given", hint=hint)
    if len(names) == 2:
        return lambda received: (received.decode(kind), received)
    if kind in (Received, Any):
        return lambda received: (received,)
    return lambda received: (received.decode(kind),)


def value_type(handler: Handler, is_batch: bool = False) -> Any:
    """Return the type that bodies are decoded into for a handler; bytes, if it takes messages alone."""
    names, kind = _first_argument(handler, TAKES)
    kind = _item_of(handler, names[0], kind) if is_batch else kind
    return bytes if kind in (Received, Any) else kind


def returned_types(handler: Handler) -> list[Any]:
    """Return the types that a handler returns by its hint, None left out. Without a hint, or with Any: none."""
    hint = hints_of(handler).get("return", Any)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return [kind for kind in kinds if kind not in (Any, None, NoneType)]


def worker(handler: Handler, concurrency: int = 1, is_batch: bool = False) -> AdaptedHandler:
    """Adapt a handler of messages or of lists. A plain function may block: it runs in one of `concurrency` threads."""
    if is_batch:
        return _batch_worker(handler, concurrency)
    arguments = arguments_of(handler)
    call, threads = _callable(handler, concurrency)
    return AdaptedHandler(lambda messages: call(*arguments(messages[0])), threads, name=_name(handler))


def _batch_worker(handler: Handler, concurrency: int) -> AdaptedHandler:
    """Adapt a batch handler: `(msgs: list[Received])`, `(orders: list[Order])`, or `(orders: list[Order], msgs)`.

    What cannot be decoded never reaches the handler: it fails alone, and not all that came with it.
    """
    names, kind = _first_argument(handler, "a batch handler takes (messages), (values) or both")
    item = _item_of(handler, names[0], kind)
    wants_values = len(names) == 2 or item not in (Received, Any)
    call, threads = _callable(handler, concurrency)

    async def work(messages: Sequence[Received]) -> Outcomes:
        if not wants_values:
            return outcomes_of(messages, await call(list(messages)))
        values, bad = _decoded(messages, item)
        good = [each for each in messages if each not in bad]
        found: Any = None
        if good:
            found = await (call(values, good) if len(names) == 2 else call(values))
        by_message = dict(zip(good, outcomes_of(good, found), strict=True))
        return [bad[each] if each in bad else by_message[each] for each in messages]

    return AdaptedHandler(work, threads, is_batch=True, name=_name(handler))


def fault_of(returned: Any) -> Exception | None:
    """Return why a message is not done although its handler returned: it returned work that nobody has done, or an
    exception, which counts as raised. None for any other value."""
    if isinstance(returned, _NOT_RUN):
        return TypeError(
            f"the handler returned {returned!r}, which has not run or not ended: inside the handler, await it, "
            "iterate over it, or enter it by `with`"
        )
    if not isinstance(returned, Exception) and not (inspect.isclass(returned) and issubclass(returned, Exception)):
        return None
    try:
        raise returned  # of a class: an object of it
    except Exception as fault:
        return fault.with_traceback(None)


def outcomes_of(messages: Sequence[Received], returned: Any) -> Outcomes:
    """Return each message's outcome by a batch handler's result. TypeError if the result is no outcome."""
    if returned is None:
        return [None] * len(messages)
    if isinstance(returned, Mapping):
        failed = {each: fault_of(fault) for each, fault in returned.items()}
        odd = [fault for each, fault in returned.items() if fault is not None and failed[each] is None]
        if odd:
            raise TypeError(f"a batch handler returned {odd[0]!r} as a message's outcome, which is no exception")
    elif isinstance(returned, Iterable) and not isinstance(returned, str | bytes):
        failed = {each: ComeAgain("the batch handler returned it") for each in returned}
    else:
        raise TypeError(
            f"a batch handler returned {returned!r}: None is all done; otherwise return the messages that failed, "
            "or a dict of messages and exceptions"
        )
    strange = [each for each in failed if each not in messages]
    if strange:
        raise TypeError(f"a batch handler returned {strange[0]!r}, which is none of the messages it was given")
    return [failed.get(each) for each in messages]


def _decoded(messages: Sequence[Received], kind: Any) -> tuple[list[Any], dict[Received, Exception]]:
    values: list[Any] = []
    bad: dict[Received, Exception] = {}
    for each in messages:
        try:
            values.append(each.decode(kind))
        except Exception as fault:  # a model's own validator may raise anything
            bad[each] = fault
    return values, bad


def _item_of(handler: Handler, name: str, kind: Any) -> Any:
    if kind is Any or name not in hints_of(handler):  # messages, or with a second argument bodies
        return kind
    if get_origin(kind) in (list, Sequence, Iterable) and len(get_args(kind)) == 1:
        return get_args(kind)[0]
    if kind is list:
        return Received
    hint = f"Write {name}: list[...], or leave out max_batch"
    raise Error(f"{handler!r} is a batch handler (max_batch), and {name} is {kind!r} and no list", hint=hint)


def check_handler(handler: Handler, shape: str = TAKES) -> None:
    """Raise Error for what is no function, and for generators and context managers, of which a call runs nothing."""
    if not callable(handler):
        raise Error(f"the handler is {handler!r}, and not a function", hint=f"Give one: {shape}")
    if inspect.isclass(handler):
        hint = f"Give an object of it, {handler.__name__}(...), or a method"
        raise Error(f"the handler is the class {handler.__qualname__}: a message would only make an object", hint=hint)
    if is_generator(handler):
        raise Error(f"{handler!r} has a `yield`: it would never run", hint="Return, or take the `yield` out")
    if is_context(handler):
        hint = "Take the decorator off, and enter a context inside the handler by `with`"
        raise Error(f"{handler!r} is a context manager by its decorator: it would never run", hint=hint)


def _first_argument(handler: Handler, shape: str) -> tuple[list[str], Any]:
    check_handler(handler, shape)
    parameters = inspect.signature(handler).parameters.values()
    # Of `(*args, **kwargs)`, as decorators are often written, both count: it can take two.
    is_open_ended = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    needed = [
        each
        for each in parameters
        if each.default is each.empty and (is_open_ended or each.kind is not each.VAR_KEYWORD)
    ]
    names = [each.name for each in needed]
    if len(names) not in (1, 2):
        raise Error(f"{handler!r} takes {len(names)} arguments", hint=f"Note that {shape}")
    if any(each.kind is each.KEYWORD_ONLY for each in needed):
        raise Error(f"{handler!r} takes {', '.join(names)} by keyword only", hint="Take out the `*` before it")
    return names, hints_of(handler).get(names[0], Received if len(names) == 1 else bytes)


def _callable(
    handler: Handler, concurrency: int
) -> tuple[Callable[..., Coroutine[Any, Any, Any]], HandlerThreads | None]:
    if is_async(handler):
        return handler, None
    threads = HandlerThreads(concurrency)

    async def call(*arguments: Any) -> Any:
        return await settled(await threads.call(handler, *arguments))

    return call, threads


async def settled(returned: Any) -> Any:
    """Return what a plain function returned; of an awaitable (`lambda msg: bill(msg)`) its result, or its exception."""
    return await returned if inspect.isawaitable(returned) else returned


def _name(handler: Handler) -> str:
    return getattr(handler, "__qualname__", None) or repr(handler)


def hints_of(handler: Handler) -> dict[str, Any]:
    """Return the type hints of a function or a callable object. TypeError for one that names what is not there."""
    target = handler if inspect.isroutine(handler) else handler.__call__  # type: ignore[operator]
    try:
        return get_type_hints(target)
    except NameError as fault:
        raise TypeError(
            f"a type hint of {handler!r} cannot be read: {fault}. Import what it names at the top of the module"
        ) from None


def is_async(handler: Handler) -> bool:
    return any(map(inspect.iscoroutinefunction, functions_of(handler)))


def is_generator(handler: Handler) -> bool:
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in functions_of(handler))


def is_context(function: Handler, decorators: Any = _CONTEXTS) -> bool:
    """Return whether a function was decorated by one of these, contextlib's own two."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__code__", None) in [each(iter).__code__ for each in decorators]


def functions_of(handler: Handler) -> tuple[Any, Any]:
    """Return the functions by whose kind a handler is judged."""
    return handler, getattr(handler, "__call__", None)  # noqa: B004 - of an object its own method
