"""Which tables are captured, to which topics, and what is left out of their rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from ..errors import ConfigError
from ..model.names import topic_fault
from .changes import SourceTable
from .events import UNAVAILABLE, Row

MASKED = "****"
DEAD = "dead"  # last word of the topic of messages that no broker takes
_SYSTEM = (
    "mysql.*",
    "information_schema.*",
    "performance_schema.*",
    "sys.*",
    "*.pg_catalog.*",
    "*.information_schema.*",
)
_NOT_IN_A_TOPIC = re.compile(r"[^A-Za-z0-9_-]")


class Rules(msgspec.Struct, frozen=True, omit_defaults=True):
    """Patterns are full names with * and ?: `shop.*`, `shop.public.orders`; of columns `shop.users.password`."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    rename: tuple[str, ...] = ()  # PATTERN=TOPIC
    leave_out: tuple[str, ...] = ()  # columns
    mask: tuple[str, ...] = ()  # columns
    prefix: str = "cdc"
    tombstones: bool = False
    schemas: bool = False
    transactions: bool = False

    def check(self) -> None:
        """Raise ConfigError for a rule that cannot be followed."""
        for each in self.rename:
            pattern, _, topic = each.partition("=")
            if not pattern or not topic:
                raise ConfigError(f"rename has {each!r}: write TABLE=TOPIC, for instance shop.orders=orders")
            if (fault := topic_fault(topic)) is not None:
                raise ConfigError(f"rename has {each!r}: {fault}")
        for name, patterns in (("leaveOut", self.leave_out), ("mask", self.mask)):
            for each in patterns:
                if each.count(".") < 2:
                    raise ConfigError(
                        f"{name} has {each!r}: write DATABASE.TABLE.COLUMN, for instance shop.users.password"
                    )
        if not self.prefix:
            raise ConfigError("prefix is empty: write the first word of the topics, for instance cdc")
        if (fault := topic_fault(topic_name(self.prefix, "x"))) is not None:
            raise ConfigError(f"prefix = {self.prefix!r}: {fault}")

    def is_wanted(self, table: str) -> bool:
        return matches(table, self.include) and not matches(table, self.exclude) and not matches(table, _SYSTEM)

    def topic_of(self, table: str) -> str:
        """Return the topic of a table. Dots become -, other characters that topics cannot have _."""
        for each in self.rename:
            pattern, _, topic = each.partition("=")
            if fnmatchcase(table, pattern):
                return topic
        return topic_name(self.prefix, *table.split("."))

    def shown(self, table: SourceTable, row: Row | None) -> Row | None:
        """Return the row without the columns to leave out; masked ones that have a value are stars."""
        if row is None or not (self.leave_out or self.mask):
            return row
        hidden, masked = _columns(table, self.leave_out), _columns(table, self.mask)
        return {
            name: MASKED if name in masked and value is not None and value != UNAVAILABLE else value
            for name, value in row.items()
            if name not in hidden
        }


def topic_name(*words: str) -> str:
    """Return the words as a topic: RocketMQ's topics have no dots."""
    return "-".join(_NOT_IN_A_TOPIC.sub("_", word) for word in words)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a full name is one of the patterns, which may have * and ?."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@lru_cache(1000)
def _columns(table: SourceTable, patterns: tuple[str, ...]) -> frozenset[str]:
    full = table.full_name
    return frozenset(each.name for each in table.columns if matches(f"{full}.{each.name}", patterns))


def check_key_is_shown(rules: Rules, table: SourceTable) -> str | None:
    """Return what is wrong if rules hide the key: rows could not be told apart downstream."""
    hidden = (_columns(table, rules.leave_out) | _columns(table, rules.mask)) & set(table.key_names)
    if not hidden:
        return None
    return f"column {', '.join(sorted(hidden))} is in the key of {table.full_name}: it cannot be masked or left out"
