"""Settings that one room declares and a daemon's configuration takes over: declared, read and documented once."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def including(part: type, *, live: bool = False) -> Callable[[type[T]], type[T]]:
    """Take over the settings that another room declares; a class with slots can inherit from one such room only.

    What the class declares itself under the same name stays its own. `part_of` gives the room its settings.
    `live`: they may be changed while running.
    """
    facts = {"live": True} if live else {}

    def include(whole: type[T]) -> type[T]:
        own = dict(whole.__annotations__)
        hints = typing.get_type_hints(part)
        for declared in dataclasses.fields(part):
            if declared.name not in own:
                whole.__annotations__[declared.name] = hints[declared.name]
                copy: Any = dataclasses.field(
                    default=declared.default,
                    default_factory=declared.default_factory,
                    metadata={**declared.metadata, **facts},
                )
                setattr(whole, declared.name, copy)
        return whole

    return include


def part_of(config: Any, kind: type[T]) -> T:
    """Return the settings that a room declared, as that room's own value."""
    names = [declared.name for declared in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(config, name) for name in names})
