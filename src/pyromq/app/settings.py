"""Settings of an `App` and options of its subscribers, checked by name and value before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from ..errors import ConfigError, PyroError

T = TypeVar("T")


def check_settings(where: str, given: Collection[str], kind: Any, make: Callable[[], T]) -> T:
    """Return what `make` does. ConfigError for a name that `kind`, a dataclass, does not have, and for a refusal."""
    known = [each.name for each in fields(kind)]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise ConfigError(f"{where}: there is no {name!r}{f'; did you mean {near[0]}?' if near else ''}")
    try:
        return make()
    except (PyroError, TypeError, ValueError) as fault:
        raise ConfigError(f"{where}: {fault}") from None
