"""The text of RocketMQ's JSON tables, as fastjson lays it out: tabs, one member a line, integer keys without quotes.

Used by `tables` alone. Values are Python builtins; a dict key that is an int is written without quotes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.wire_text import LONG_MAX, whole_number
from ...protocol.json import FILE_LIMITS, parse_json

# Where Java has maps with integer keys: file, then paths of member names (* is any). JSON readers give them as strings.
INTEGER_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "consumerOffset.json": (("offsetTable", "*"), ("pullOffsetTable", "*")),
    "delayOffset.json": (("offsetTable",),),
    "consumerOrderInfo.json": (("table", "*"), ("table", "*", "*", "ot"), ("table", "*", "*", "oc")),
    "topicQueueMapping.json": (
        ("topicQueueMappingInfoMap", "*", "hostedQueues"),
        ("topicQueueMappingInfoMap", "*", "currIdMap"),
    ),
    "lmqConsumerOffset.json": (("lmqOffsetTable", "*"),),
}


def parse_table(data: bytes) -> dict[str, Any]:
    """Return the table's members, all keys as text. Raises ProtocolError, or ValueError if it is no object."""
    content = parse_json(data, FILE_LIMITS)
    if not isinstance(content, dict):
        raise ValueError(f"a JSON object was expected, not {type(content).__name__}")
    return content


def give_integer_keys(content: dict[str, Any], file_name: str) -> None:
    """Turn keys into numbers where Java has numbers."""
    for path in INTEGER_KEYS.get(file_name, ()):
        _with_integer_keys(content, path)


def _with_integer_keys(value: dict[str, Any], path: tuple[str, ...]) -> None:
    head, rest = path[0], path[1:]
    for name in list(value) if head == "*" else [head]:
        member = value.get(name)
        if not isinstance(member, dict):
            continue
        if rest:
            _with_integer_keys(member, rest)
        else:
            value[name] = {_integer(key): entry for key, entry in member.items()}


def _integer(key: str) -> int | str:
    number = whole_number(key, -LONG_MAX - 1)
    return key if number is None else number


def render(value: Any, depth: int = 0, one_line: bool = False) -> str:
    """Return the value's text inside `depth` open braces. Members that are None are left out, as in Java."""
    if isinstance(value, dict):
        members = [
            f"{render_key(key)}:{render(member, depth + 1, one_line)}"
            for key, member in value.items()
            if member is not None
        ]
        return enclose("{", members, "}", depth, one_line)
    if isinstance(value, list | tuple):
        # Java has its numbers in arrays, which fastjson keeps on one line, and its texts in lists, which it does not.
        flat = one_line or all(isinstance(item, int) for item in value)
        return enclose("[", [render(item, depth + 1, one_line) for item in value], "]", depth, flat)
    return msgspec.json.encode(value).decode()


def render_key(key: str | int) -> str:
    return msgspec.json.encode(key).decode()


def enclose(opening: str, parts: list[str], closing: str, depth: int, one_line: bool) -> str:
    if not parts or one_line:
        return opening + ",".join(parts) + closing
    inner = "\n" + "\t" * (depth + 1)
    return opening + inner + ("," + inner).join(parts) + "\n" + "\t" * depth + closing
