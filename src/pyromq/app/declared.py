"""What the decorators of an `App` have declared: who handles which topics, and where what they return goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..client.handle.handlers import Handler, value_type
from ..client.keywords import ConsumeSettings, PublishArguments
from ..client.subscription import Filter


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[str, ...]
    group: str
    filter: Filter | None
    replies: bool
    function: Handler
    options: ConsumeSettings

    @property
    def is_batch(self) -> bool:
        return self.options.get("max_batch") is not None

    @property
    def value_type(self) -> Any:
        return value_type(self.function, self.is_batch)


@dataclass(frozen=True, slots=True)
class Publication:
    topic: str
    order_key: str | Callable[[Any], str | None] | None
    arguments: PublishArguments
