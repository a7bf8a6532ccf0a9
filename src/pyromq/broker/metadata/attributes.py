"""Attributes of topics and groups: what may be set, and the change syntax `+key=value`, `-key`.

Pure. The wire form is RocketMQ's: a text of comma-separated changes (request 17) or a map whose keys have the sign in
front (requests 18, 200, 225). Nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import RequestRefused
from ...model.wire_text import LONG_MAX, whole_number

QUEUE_TYPE = "queue.type"
CLEANUP_POLICY = "cleanup.policy"
MESSAGE_TYPE = "message.type"
RESERVE_TIME = "reserve.time"
MOST_TEXT = 64 << 10  # characters of changes in one request


@dataclass(frozen=True, slots=True)
class Attribute:
    """One key and its values: a choice of texts, whole numbers in a range, or any text."""

    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    changeable: bool = True
    missing: Mapping[str, str] = field(default_factory=dict)  # values of Java's that cannot be honoured yet, and why

    def check(self, key: str, value: str) -> None:
        if value in self.missing:
            raise RequestRefused(f"attribute {key}={value} is refused: {self.missing[value]}")
        if self.choices and value not in self.choices:
            raise RequestRefused(f"attribute {key}={value}: the value must be one of {', '.join(self.choices)}")
        if self.low is None:
            return
        number = whole_number(value, -LONG_MAX - 1)
        if number is None:
            raise RequestRefused(f"attribute {key}={value}: the value must be a whole number")
        if number < self.low or (self.high is not None and number > self.high):
            raise RequestRefused(f"attribute {key}={value}: the value must be from {self.low} to {self.high}")


TRUTH = ("true", "false")
_NO_COMPACTION = "nothing is compacted yet, so the last message of a key would expire; create the topic without it"
_NO_LITE = "lite topics are not there yet, so nobody would get its messages; create the topic with another type"

TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    QUEUE_TYPE: Attribute(choices=("SimpleCQ", "BatchCQ"), changeable=False),
    CLEANUP_POLICY: Attribute(choices=("DELETE",), changeable=False, missing={"COMPACTION": _NO_COMPACTION}),
    MESSAGE_TYPE: Attribute(
        choices=("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY"),
        missing={"LITE": _NO_LITE},
    ),
    RESERVE_TIME: Attribute(low=-1, high=LONG_MAX),
    "lite.topic.expiration": Attribute(low=-1, high=43_200),
}

GROUP_ATTRIBUTES: Mapping[str, Attribute] = {
    "priority.factor": Attribute(low=0, high=100),
    "lite.bind.topic": Attribute(),
    "lite.sub.model": Attribute(choices=("Shared", "Exclusive")),
    "lite.sub.client.quota": Attribute(low=-1, high=LONG_MAX),
    "lite.sub.client.max.event.cnt": Attribute(low=10, high=LONG_MAX),
    "lite.sub.wildcard": Attribute(),
    "lite.sub.reset.offset.exclusive": Attribute(choices=TRUTH),
    "lite.sub.reset.offset.unsubscribe": Attribute(choices=TRUTH),
}


def has_batch_queues(attributes: Mapping[str, str]) -> bool:
    """Return whether a topic's queues have an entry for each inner batch."""
    return attributes.get(QUEUE_TYPE) == "BatchCQ"


def parse_changes(text: str | None) -> dict[str, str]:
    """Read `+a=1,-b` as a map with signed keys."""
    changes: dict[str, str] = {}
    if text and len(text) > MOST_TEXT:
        raise RequestRefused(f"attributes of {len(text)} characters: at most {MOST_TEXT} are taken")
    for part in (text or "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.strip().partition("=")
        if key[:1] not in ("+", "-") or (key[0] == "+") != bool(equals):
            raise RequestRefused(f"attribute change {part.strip()!r}: write +key=value to set and -key to delete")
        if key in changes:
            raise RequestRefused(f"attribute {key[1:]} is changed twice in one request")
        changes[key] = value
    return changes


def alter(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes after the changes.

    `current` is None for what is being created. RequestRefused says why not.
    """
    after = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-") or not key:
            raise RequestRefused(f"attribute {signed!r} has no sign: write +{signed} to set, -{signed} to delete")
        if key in seen:
            raise RequestRefused(f"attribute {key} is changed twice in one request")
        seen.add(key)
        if key not in known:
            raise RequestRefused(f"unsupported key: {key}; these are: {', '.join(sorted(known))}")
        if current is not None and not known[key].changeable and current.get(key) != value:
            raise RequestRefused(f"attribute {key} cannot be changed after creation; create another topic with it")
        if sign == "+":
            known[key].check(key, value)
            after[key] = value
        elif current is None:
            raise RequestRefused(f"attribute {key} cannot be deleted from what does not exist yet: use +{key}=value")
        elif key not in current:
            raise RequestRefused(f"attribute {key} is not set, so it cannot be deleted")
        else:
            del after[key]
    return after
