"""Settings of an `App` and options of its subscribers, checked by name and value before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, TypeVar

from ..client.errors import Error
from ..client.handle.handlers import is_async, is_generator
from ..errors import ConfigError, PyroError

T = TypeVar("T")


def check_settings(where: str, given: Collection[str], kind: Any, make: Callable[[], T]) -> T:
    """Return what `make` does. ConfigError for a name that `kind` (a class of names) lacks, and for a refusal."""
    known = list(kind.__annotations__)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise ConfigError(f"{where}: there is no {name!r}{f'; did you mean {near[0]}?' if near else ''}")
    try:
        return make()
    except (PyroError, TypeError, ValueError) as fault:
        raise ConfigError(f"{where}: {fault}") from None


def checked_lifespan(lifespan: T) -> T:
    """Return the lifespan of an app. Error for a function that was not made one by @asynccontextmanager."""
    if lifespan is not None and (not callable(lifespan) or is_generator(lifespan) or is_async(lifespan)):
        hint = "Write @contextlib.asynccontextmanager above `async def` with one `yield`"
        raise Error(f"lifespan={lifespan!r} is no function that returns an async context manager", hint=hint)
    return lifespan
