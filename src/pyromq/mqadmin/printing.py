"""How Java prints values: maps, lists, booleans, times, JSON with tabs. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

import msgspec

from ..config import masked
from ..model.wire_text import LONG_MAX, whole_number
from ..protocol.bodies.body import Body, encode_body
from ..protocol.bodies.keyed import MessageQueue
from ..protocol.json import ANSWER_LIMITS, Dialect, parse_json

V = TypeVar("V")


def as_line(text: str) -> str:
    """Return text with names from elsewhere in it as one line. What else is unseen is escaped in `main.run`."""
    return text.replace("\n", "\\n")


class Columns:
    """A table of Java's tool. Headings stand where the values come: `Columns("{#Topic:<32}  {#QID:<4} {#Last}")`."""

    def __init__(self, text: str) -> None:
        self.head = _COLUMN.sub(lambda found: format(found[1], found[2]), text)
        self.format = _COLUMN.sub(r"{:\2}", text).format


_COLUMN = re.compile(r"\{([^:{}]+):?([^{}]*)\}")  # heading and how it is laid out


def java(value: object) -> str:
    """Return `toString()` of what Java would hold."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={java(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(java, value)) + "]"
    if isinstance(value, (msgspec.Struct, Enum)):
        return java(msgspec.to_builtins(value))
    return str(value)


def fields_of(of: Body) -> dict[str, Any]:
    """Return the values by Java's names."""
    return {field.encode_name: getattr(of, field.name) for field in msgspec.structs.fields(of)}


def java_object(layout: str, of: Body, **instead: object) -> str:
    """Return `toString()` of a Java object: the layout `Name{id, 'text'}` becomes `Name{id=1, text='x'}`."""
    values = fields_of(of) | instead
    return _MEMBER.sub(lambda found: f"{found[2]}={found[1]}{java(values[found[2]])}{found[1]}", layout)


_MEMBER = re.compile(r"('?)(\w+)'?(?=[,}\]])")  # the quotes that Java prints around it, and its name


def when(ms: int) -> str:
    """Return the local time as `2026-11-15 18:58:39,050`."""
    return local_time(ms, "%Y-%m-%d %H:%M:%S,", "%03d")


def when_s(ms: int) -> str:
    """Return the local time without milliseconds."""
    return local_time(ms, "%Y-%m-%d %H:%M:%S")


def local_time(ms: int, pattern: str, millis: str = "") -> str:
    """Return the local time; a text that says so where Python's calendar ends: peers may send any number."""
    try:
        text = datetime.fromtimestamp(ms / 1000).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return "after 9999" if ms > 0 else "before the year 1"
    return text + (millis % (ms % 1000) if millis else "")


def pretty(body: Body) -> str:
    """Return JSON as fastjson's pretty printer lays it out: tabs, empty containers on a line, numbers as bare keys."""
    return pretty_value(parse_json(encode_body(body, Dialect.STANDARD), ANSWER_LIMITS))


def pretty_value(value: Any, depth: int = 0) -> str:
    tabs, inner = "\t" * depth, "\t" * (depth + 1)
    if isinstance(value, dict) and value:
        rows = [f"{inner}{_key(key)}:{pretty_value(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{tabs}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + pretty_value(item, depth + 1) for item in value) + f"\n{tabs}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if whole_number(key, -LONG_MAX - 1) is not None else json.dumps(key, ensure_ascii=False)


def setting_lines(settings: Mapping[str, str]) -> list[str]:
    """Return a line for each setting of a server; passwords, which Apache's servers show to everybody, as stars."""
    return [f"{key:<50}=  {masked(key, value)}" for key, value in settings.items()]


def queues_in_order(table: Mapping[MessageQueue, V]) -> list[tuple[MessageQueue, V]]:
    """Return the pairs as Java sorts queues."""
    return sorted(table.items(), key=lambda pair: (pair[0].topic, pair[0].broker_name, pair[0].queue_id))


def queue_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
