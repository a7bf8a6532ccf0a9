"""Typed header fields, declared once and driven both ways.

    class QueryConsumerOffset(Header, kw_only=True):
        consumer_group: str                  # required; `consumerGroup` on the wire
        queue_id: Int32
        set_zero_if_not_found: bool | None = None

On the wire every value is a string in the command's `fields`. Unknown fields are ignored here and stay in the command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from ...errors import Malformed
from ..ints import Int32, Int64, java_text

__all__ = ["Header", "Int32", "Int64"]


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """A field without default is required; None is left out on the wire."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Read the fields. Malformed (SYSTEM_ERROR, as in Java) names the one that is missing or malformed."""
        try:
            return msgspec.convert(fields, cls, strict=False)
        except msgspec.ValidationError as fault:
            place = re.search(r"at `\$\.([^`]+)`", str(fault))
            value = f", it is {fields[place[1]][:80]!r}" if place and place[1] in fields else ""
            raise Malformed(f"bad header fields: {fault}{value}") from None

    def to_fields(self) -> dict[str, str]:
        pairs: dict[str, Any] = msgspec.to_builtins(self)
        return {
            name: value if type(value) is str else java_text(value)
            for name, value in pairs.items()
            if value is not None
        }


class RpcHeader(Header, kw_only=True):
    """Namespace, broker name and the one-way wish of 5.x."""

    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None
    oway: bool | None = None


class TopicHeader(RpcHeader, kw_only=True):
    """The same, and whether a queue id is a logical one of a static topic (`lo`; false: it is physical)."""

    lo: bool | None = None


# --- shapes that several requests share ------------------------------------------------------------------------------


class TopicName(TopicHeader, kw_only=True):
    topic: str


class GroupName(RpcHeader, kw_only=True):
    group: str


class ConsumerGroupName(RpcHeader, kw_only=True):
    consumer_group: str


class TopicQueue(TopicName, kw_only=True):
    queue_id: Int32


class GroupQueue(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
