"""What a consumer wants of a topic: everything, certain tags (brokers compare hashes, we the text), or an SQL92
expression over the properties, which brokers alone evaluate."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.java_hash import java_hash
from ..model.message import Message
from ..protocol.bodies.heartbeat import SubscriptionData
from .errors import Error

_SEPARATOR = "||"


@dataclass(frozen=True, slots=True)
class Filter:
    """Made by `tag`, `sql` or `everything`."""

    tags: frozenset[str] = frozenset()
    sql: str = ""

    @property
    def expression(self) -> str:
        return self.sql or " || ".join(sorted(self.tags)) or "*"

    @property
    def expression_type(self) -> str:
        return "SQL92" if self.sql else "TAG"

    def matches(self, message: Message) -> bool:
        return not self.tags or message.tags in self.tags

    def describe(self, topic: str, version: int) -> SubscriptionData:
        tags = sorted(self.tags)
        return SubscriptionData(
            topic=topic,
            sub_string=self.expression,
            expression_type=self.expression_type,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
            sub_version=version,
        )


def everything() -> Filter:
    return Filter()


def tag(*tags: str) -> Filter:
    """Return a filter for messages with one of these tags; `*` is all."""
    for each in tags:
        if not isinstance(each, str):
            raise Error(f"tag({each!r}): a tag is a string", hint="Leave the filter out to get every message")
        if _SEPARATOR in each:
            words = ", ".join(f'"{part.strip()}"' for part in each.split(_SEPARATOR))
            raise Error(f"tag({each!r}): {_SEPARATOR} stands between tags and in none", hint=f"Write tag({words})")
    parts = [each.strip() for each in tags]
    if not parts or not all(parts):
        raise Error(f"tag{tags!r}: a tag is empty", hint="Leave the filter out to get every message")
    return Filter() if "*" in parts else Filter(frozenset(parts))


def sql(expression: str) -> Filter:
    """Return a filter for messages whose properties fit: `region = 'eu' AND total > 10`.

    Brokers need enablePropertyFilter=true.
    """
    if not isinstance(expression, str):
        raise Error(f"sql({expression!r}): the expression is a string", hint="Write sql(\"region = 'eu'\")")
    if not expression.strip():
        raise Error("sql(''): the expression is empty", hint="Leave the filter out to get every message")
    return Filter(sql=expression)
