"""What the decorators of an `App` have declared: who handles which topics, and where what they return goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..client.arguments import check_text, time_limit
from ..client.handle.handlers import Handler, value_type
from ..client.keywords import ConsumeSettings, PublishArguments
from ..client.produce.outgoing import check_sendable, message_properties
from ..client.produce.queue_choice import queue_choice
from ..client.subscription import Filter
from ..errors import ConfigError
from .settings import check_settings


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

    def check(self) -> None:
        """Raise BadMessage for what `Producer.send` would refuse of every message."""
        about: dict[str, Any] = dict(self.arguments)
        queue, timeout, _ = (about.pop(name, None) for name in ("queue", "timeout", "codec"))
        check_text("the topic", self.topic)
        check_sendable(self.topic)
        order_key = None if callable(self.order_key) else self.order_key
        message_properties("", order_key=order_key, **about)
        queue_choice(order_key, queue)
        if timeout is not None:
            time_limit("timeout", timeout)


def check_publications(publishing: Mapping[Handler, Sequence[Publication]], called: Collection[Handler]) -> None:
    """Raise ConfigError for arguments that a send would refuse, and for functions that no subscriber calls."""
    for function, publications in publishing.items():
        for each in publications:
            where = f"publisher to {each.topic!r}"
            check_settings(where, each.arguments, PublishArguments, each.check)
            if function not in called:
                raise ConfigError(
                    f"{where}: {function!r} is no subscriber, so nothing would be sent. Write @app.subscriber above "
                    "@app.publisher, with no other decorator between them"
                )
