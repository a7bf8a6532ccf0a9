"""What a quota is: of whom, of what, how much; and how one is written.

    topic:orders sendBytes=1048576 sendMessages=1000
    user:* connections=20

`*` stands for everybody of that kind who has no quota of his own: each of them has that much for himself. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...errors import ConfigError
from ...model import names
from ...model.wire_text import LONG_MAX, whole_number

EVERYBODY = "*"
NAME_CHARS = 255


class QuotaKind(Enum):
    USER = "user"
    GROUP = "group"
    TOPIC = "topic"
    ADDRESS = "address"


class Limit(Enum):
    """The value is the name on the wire, in the table, in settings and on the command line."""

    SEND_BYTES = "sendBytes"
    SEND_MESSAGES = "sendMessages"
    READ_BYTES = "readBytes"
    READ_MESSAGES = "readMessages"
    CONNECTIONS = "connections"
    TOPICS = "topics"
    GROUPS = "groups"
    QUEUES = "queues"
    SUBSCRIPTIONS = "subscriptions"
    TIMERS = "timers"
    STORED_BYTES = "storedBytes"
    HALF_MESSAGES = "halfMessages"
    LOOP_TIME = "loopTime"


SENDING = frozenset({Limit.SEND_BYTES, Limit.SEND_MESSAGES})
READING = frozenset({Limit.READ_BYTES, Limit.READ_MESSAGES})
RATES = SENDING | READING
BUCKETS = RATES | {Limit.LOOP_TIME}
BYTES = frozenset({Limit.SEND_BYTES, Limit.READ_BYTES})
_OF = {
    QuotaKind.USER: BUCKETS | {Limit.CONNECTIONS, Limit.TOPICS, Limit.GROUPS},
    QuotaKind.ADDRESS: BUCKETS | {Limit.CONNECTIONS, Limit.TOPICS, Limit.GROUPS},
    QuotaKind.GROUP: BUCKETS | {Limit.CONNECTIONS, Limit.SUBSCRIPTIONS, Limit.HALF_MESSAGES},
    QuotaKind.TOPIC: RATES | {Limit.QUEUES, Limit.TIMERS, Limit.STORED_BYTES, Limit.HALF_MESSAGES},
}
_WORDS = {
    Limit.SEND_BYTES: "bytes sent a second",
    Limit.SEND_MESSAGES: "messages sent a second",
    Limit.READ_BYTES: "bytes read a second",
    Limit.READ_MESSAGES: "messages read a second",
    Limit.CONNECTIONS: "connections",
    Limit.TOPICS: "topics",
    Limit.GROUPS: "groups",
    Limit.QUEUES: "queues",
    Limit.SUBSCRIPTIONS: "topics subscribed to",
    Limit.TIMERS: "messages that wait for their time",
    Limit.STORED_BYTES: "bytes stored",
    Limit.HALF_MESSAGES: "half messages that nobody has ended",
    Limit.LOOP_TIME: "milliseconds of the event loop a second",
}


def in_words(limit: Limit) -> str:
    return _WORDS[limit]


class QuotaSubject(NamedTuple):
    """Whom a quota is for."""

    kind: QuotaKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


@dataclass(frozen=True, slots=True)
class Quota:
    owner: QuotaSubject
    limits: Mapping[Limit, int]


def owner_of(kind: str, name: str) -> QuotaSubject:
    """Return whom these words name. ConfigError says what is wrong with them."""
    found = next((each for each in QuotaKind if each.value == kind), None)
    if found is None:
        raise ConfigError(f"quota of {kind!r}: it is one of {', '.join(each.value for each in QuotaKind)}")
    fault = None
    if name != EVERYBODY:
        fault = _name_fault(found, name)
    if fault is not None:
        raise ConfigError(f"quota of {kind}:{name}: {fault}")
    return QuotaSubject(found, name)


def _name_fault(kind: QuotaKind, name: str) -> str | None:
    if kind is QuotaKind.TOPIC:
        return names.topic_fault(name)
    if kind is QuotaKind.GROUP:
        return names.group_fault(name)
    if kind is QuotaKind.ADDRESS:
        try:
            return None if str(ipaddress.ip_address(name)) == name else "write the address in its usual form"
        except ValueError:
            return "it is no IP address (10.0.0.5), and networks have no quota: * is for each address"
    return None if name.isprintable() and 0 < len(name) <= NAME_CHARS else "it is no name of a user"


def limits_of(owner: QuotaSubject, given: Mapping[str, int]) -> dict[Limit, int]:
    """Return limits by their names. ConfigError: one is unknown, negative, or not for such an owner."""
    by_name = {each.value: each for each in Limit}
    limits = {}
    for name, value in given.items():
        limit = by_name.get(name)
        if limit is None or limit not in _OF[owner.kind]:
            known = ", ".join(sorted(each.value for each in _OF[owner.kind]))
            raise ConfigError(f"quota of {owner}: {name!r} is no limit of a {owner.kind.value}; these are: {known}")
        if not 0 <= value <= LONG_MAX:
            raise ConfigError(f"quota of {owner}: {name} = {value} is too large, or negative")
        limits[limit] = value
    if not limits:
        raise ConfigError(f"quota of {owner}: it has no limit, such as sendBytes=1048576")
    return limits


def parse(text: str) -> Quota:
    """Read one quota of the setting `quotas`. ConfigError says what is wrong with it."""
    whom, *pairs = text.split()
    kind, _, name = whom.partition(":")
    owner = owner_of(kind, name)
    given = {}
    for pair in pairs:
        limit, _, value = pair.partition("=")
        number = whole_number(value)
        if number is None:
            raise ConfigError(f"quota of {owner}: {pair!r} is not LIMIT=NUMBER, such as sendBytes=1048576")
        given[limit] = number
    return Quota(owner, limits_of(owner, given))
