"""Names of topics, groups and lite topics, and what may be asked for: refused as Java's proxy refuses them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...model import names
from ...protocol.grpc.v2 import Code
from ..statuses import Denied

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_PATTERN = "^[%|a-zA-Z0-9_-]+$"
_LITE = re.compile(r"[a-zA-Z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

IsSystemTopic = Callable[[str], bool]


def check_topic(topic: str, is_system: IsSystemTopic = names.is_system_topic) -> None:
    if not topic.strip():
        raise Denied(Code.ILLEGAL_TOPIC, "The specified topic is blank")
    longest = names.MAX_RETRY_TOPIC if topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)) else names.MAX_TOPIC
    if len(topic) > longest:
        raise Denied(Code.ILLEGAL_TOPIC, f"The specified topic is longer than topic max length {longest}.")
    if not _ALLOWED.fullmatch(topic):
        raise Denied(
            Code.ILLEGAL_TOPIC, f"The specified topic[{topic}] contains illegal characters, allowing only {_PATTERN}"
        )
    if is_system(topic):
        raise Denied(Code.ILLEGAL_TOPIC, "cannot access system topic")


def check_group(group: str) -> None:
    if not group.strip():
        raise Denied(Code.ILLEGAL_CONSUMER_GROUP, "the specified group is blank")
    if len(group) > names.MAX_GROUP:
        raise Denied(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"the specified group[{group}] is longer than group max length: {names.MAX_GROUP}.",
        )
    if not _ALLOWED.fullmatch(group):
        raise Denied(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"the specified group[{group}] contains illegal characters, allowing only {_PATTERN}",
        )
    if group.startswith(names.SYSTEM_GROUP_PREFIX):
        raise Denied(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")


def check_lite_topic(name: str, longest: int) -> None:
    if not name.strip():
        raise Denied(Code.ILLEGAL_LITE_TOPIC, "lite topic cannot be the char sequence of whitespace")
    if len(name) > longest:
        raise Denied(Code.ILLEGAL_LITE_TOPIC, f"lite topic exceed the max size {longest}")
    if not _LITE.fullmatch(name):
        raise Denied(
            Code.ILLEGAL_LITE_TOPIC,
            "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)",
        )


def check_invisible(milliseconds: int, least: int, most: int) -> None:
    if milliseconds < least:
        raise Denied(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least}")
    if milliseconds > most:
        raise Denied(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {most}")


def has_control(text: str) -> bool:
    """Return whether it has a control character (Java's ISO control)."""
    return not text.isprintable() and _CONTROL.search(text) is not None
