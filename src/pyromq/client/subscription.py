"""What a consumer wants of a topic: everything, or messages with certain tags. Brokers compare hashes, we the text."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.java_hash import java_hash
from ..model.message import Message
from ..protocol.bodies.heartbeat import SubscriptionData
from .errors import Error, NotSupported

_SEPARATOR = "||"


@dataclass(frozen=True, slots=True)
class Filter:
    """Made by `tag` or `everything`."""

    tags: frozenset[str] = frozenset()

    @property
    def expression(self) -> str:
        return " || ".join(sorted(self.tags)) or "*"

    def matches(self, message: Message) -> bool:
        return not self.tags or message.tags in self.tags

    def describe(self, topic: str, version: int) -> SubscriptionData:
        tags = sorted(self.tags)
        return SubscriptionData(
            topic=topic,
            sub_string=self.expression,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
            sub_version=version,
        )


def everything() -> Filter:
    return Filter()


def tag(*tags: str) -> Filter:
    """Messages with one of these tags. RocketMQ's own notation (`a || b`, `*`) works too."""
    parts = [part.strip() for each in tags for part in each.split(_SEPARATOR)]
    if not parts or not all(parts):
        raise Error(f"tag{tags!r}: a tag is empty", hint="Leave the filter out to get every message")
    return Filter() if "*" in parts else Filter(frozenset(parts))


def sql(expression: str) -> Filter:
    raise NotSupported(f"SQL filters are not there yet: {expression!r}", hint="Filter by tag(...), or in the handler")
