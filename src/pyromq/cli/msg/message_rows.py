"""A stored message as a row, as a line of an export, and back. Pure.

A line has what is needed to send the message again: body (as text, or `bodyBase64` where it is none), tags, keys, order
key and the application's properties; and, for people, where and when it was.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from dataclasses import dataclass, field
from typing import Any

from ...admin.copies import is_kept, message_id, own_properties
from ...client.errors import BadMessage
from ...model.message import KEY_SEPARATOR, Property, StoredMessage

BODY_SHOWN = 60  # columns of a table
_COLUMNS = (b"PAR1", b"ARROW1")  # how Parquet and Arrow files begin


def row(message: StoredMessage, broker: str, *, is_short: bool = False) -> dict[str, Any]:
    """Return the message as a row. `is_short`: for a table, where a long body is cut."""
    body = message.body.decode("utf-8", "backslashreplace")
    if is_short:
        body = body if len(body) <= BODY_SHOWN else body[: BODY_SHOWN - 3] + "..."
    found: dict[str, Any] = {
        "messageId": message_id(message),
        "topic": message.topic,
        "broker": broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "storedMs": message.store_timestamp,
        "tags": message.tags,
        "keys": message.properties.get(Property.KEYS, ""),
        "body": body,
    }
    return found if is_short else found | {"bornMs": message.born_timestamp, "properties": dict(message.properties)}


def exported(message: StoredMessage, broker: str) -> dict[str, Any]:
    properties = own_properties(message)
    tags, keys = properties.pop(Property.TAGS, ""), properties.pop(Property.KEYS, "")
    order_key = properties.pop(Property.SHARDING_KEY, "")
    line: dict[str, Any] = {
        "topic": message.topic,
        "messageId": message_id(message),
        "broker": broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "bornMs": message.born_timestamp,
        "storedMs": message.store_timestamp,
        "tags": tags,
        "keys": keys.split(KEY_SEPARATOR) if keys else [],
        "orderKey": order_key,
        "properties": properties,
    }
    try:
        return line | {"body": message.body.decode()}
    except UnicodeDecodeError:
        return line | {"bodyBase64": b64encode(message.body).decode()}


@dataclass(frozen=True, slots=True)
class Imported:
    """One line of an import, ready to be sent."""

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)


def imported(text: bytes, topic: str | None) -> Imported:
    """Return the message that a line of an export holds. ValueError and BadMessage say what is wrong with it."""
    if text.startswith(_COLUMNS):
        raise ValueError("it is a file of columns. Import takes JSON lines only: export the topic to a .jsonl file")
    try:
        line = json.loads(text.decode())
    except UnicodeDecodeError as fault:
        raise ValueError(f"{fault}. Import takes JSON lines in UTF-8 only") from None
    except json.JSONDecodeError as fault:  # its own line number is always 1
        raise ValueError(f"it is no JSON: {fault.msg} at character {fault.pos + 1}") from None
    if not isinstance(line, dict):
        raise ValueError("it is no JSON object")
    target = topic or line.get("topic")
    if not isinstance(target, str) or not target:
        raise ValueError("it names no topic: give --to")
    properties = line.get("properties") or {}
    keys = line.get("keys") or []
    if not isinstance(properties, dict) or not isinstance(keys, list | str):
        raise ValueError("properties are an object, keys a list")
    if refused := [name for name in properties if not is_kept(name)]:
        raise BadMessage(f"property {refused[0]!r} is RocketMQ's own", hint="Leave it out, or choose another name")
    own = {
        Property.TAGS: line.get("tags"),
        Property.KEYS: keys if isinstance(keys, str) else KEY_SEPARATOR.join(map(str, keys)),
        Property.SHARDING_KEY: line.get("orderKey"),
    }
    pairs = {str(name): str(value) for name, value in properties.items()}
    return Imported(target, _body(line), pairs | {name: str(value) for name, value in own.items() if value})


def _body(line: dict[str, Any]) -> bytes:
    if isinstance(line.get("body"), str):
        return str(line["body"]).encode()
    if isinstance(line.get("bodyBase64"), str):
        try:
            return b64decode(line["bodyBase64"], validate=True)
        except NoBase64 as fault:
            raise ValueError(f"bodyBase64: {fault}") from None
    raise ValueError("it has neither body nor bodyBase64")
