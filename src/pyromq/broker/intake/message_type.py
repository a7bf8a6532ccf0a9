"""What kind of message it is, by its properties, and whether a topic that names a kind takes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.message import Property
from ...model.wire_text import INT_MAX, whole_number
from ..metadata.attributes import CLEANUP_POLICY, MESSAGE_TYPE, QUEUE_TYPE, RESERVE_TIME

NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE = "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE"
ANYTHING = ("UNSPECIFIED", "MIXED")

# Attributes under which a message needs no look, beside the topic's type.
_PLAIN = {
    QUEUE_TYPE: ("SimpleCQ",),
    CLEANUP_POLICY: ("DELETE",),
}

TIMERS = (
    Property.TIMER_DELAY_SEC,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
)  # the first that is there counts


def message_type(properties: Mapping[str, str]) -> str:
    """Return the type in RocketMQ's order of decision: a transaction may also have a sharding key."""
    if properties.get(Property.TRAN_MSG, "").lower() == "true":
        return TRANSACTION
    if delay_level(properties) > 0 or any(name in properties for name in TIMERS):
        return DELAY
    if Property.SHARDING_KEY in properties:
        return FIFO
    if Property.LITE_TOPIC in properties:
        return LITE
    if Property.PRIORITY in properties:
        return PRIORITY
    return NORMAL


def takes_plain(attributes: Mapping[str, str]) -> bool:
    """Return whether a topic takes every message that has neither a special property nor a sharding key, as it is."""
    return _takes(attributes, (NORMAL, FIFO))


def takes_kind(attributes: Mapping[str, str], kind: str) -> bool:
    """Return whether a topic takes every message of that type, if it has no other special property, as it is."""
    return _takes(attributes, (kind,))


def _takes(attributes: Mapping[str, str], kinds: tuple[str, ...]) -> bool:
    taken = _PLAIN | {MESSAGE_TYPE: (*kinds, *ANYTHING)}
    return all(name == RESERVE_TIME or value in taken.get(name, ()) for name, value in attributes.items())


def names_type(attributes: Mapping[str, str]) -> bool:
    """Return whether a topic is for one type of messages."""
    return attributes.get(MESSAGE_TYPE, ANYTHING[0]) not in ANYTHING


def wrong_type(attributes: Mapping[str, str], properties: Mapping[str, str]) -> str | None:
    """Return the type of a message that is not the topic's; None if it fits. A topic that names no type takes all."""
    if not names_type(attributes):
        return None
    wanted, given = attributes[MESSAGE_TYPE], message_type(properties)
    # Remoting clients keep order by choosing the queue themselves, mostly without a sharding key.
    return None if given == wanted or (wanted, given) == (FIFO, NORMAL) else given


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the delay level; a dead letter has -1, and what is no number counts as none."""
    return whole_number(properties.get(Property.DELAY), high=INT_MAX) or 0
