"""Writes bodies as JSON in one of the two dialects. Called by `encode_body` alone.

msgspec writes everything that has string keys. Only what holds a map with other keys is walked here: numbers stay
unquoted in Java's dialect, queues are objects there and the string of their JSON text in the standard one.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any, Union, get_args, get_origin

import msgspec

from ..json import Dialect
from .keyed import ByQueue

Write = Callable[[Any], bytes]

_encode = msgspec.json.Encoder().encode


def write_json(value: Any, dialect: Dialect) -> bytes:
    kind: Any = type(value)
    if kind is list and value:
        kind = list[type(value[0])]  # type: ignore[misc]
    return (_writer(kind, dialect) or _encode)(value)


@cache
def _writer(kind: Any, dialect: Dialect) -> Write | None:
    """How to write values of this type; None where msgspec's own way is right."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is ByQueue:
        return _map_writer(_queue_key if dialect is Dialect.JAVA else _quoted_key, _writer(parts[0], dialect))
    if origin is dict:
        return _dict_writer(parts[0], _writer(parts[1], dialect), dialect)
    if origin is list:
        item = _writer(parts[0], dialect)
        return item and _list_writer(item)
    if origin in (Union, types.UnionType):
        return next(filter(None, (_writer(part, dialect) for part in parts)), None)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct_writer(kind, dialect)
    return None


def _struct_writer(kind: type[msgspec.Struct], dialect: Dialect) -> Write | None:
    declared = [
        (_encode(f.encode_name) + b":", f.name, f.default, _writer(f.type, dialect))
        for f in msgspec.structs.fields(kind)
    ]
    fields = sorted(declared, key=lambda field: field[0])  # alphabetical, as Java; a subclass declares its own last
    if fields == declared and not any(write for *_, write in fields):
        return None

    def write_struct(value: Any) -> bytes:
        members = []
        for key, name, default, write in fields:
            item = getattr(value, name)
            if item is not None and item != default:  # as msgspec leaves out; `always` has no default to compare with
                members.append(key + (write or _encode)(item))
        return b"{" + b",".join(members) + b"}"

    return write_struct


def _dict_writer(key: Any, item: Write | None, dialect: Dialect) -> Write | None:
    if key is not str and dialect is Dialect.JAVA:
        return _map_writer(_encode, item)
    if item is None:
        return None
    return _map_writer(_encode if key is str else _quoted_key, item)


def _map_writer(write_key: Write, write_item: Write | None) -> Write:
    write = write_item or _encode
    return lambda value: b"{" + b",".join([write_key(k) + b":" + write(v) for k, v in value.items()]) + b"}"


def _list_writer(item: Write) -> Write:
    return lambda value: b"[" + b",".join([item(v) for v in value]) + b"]"


_queue_key: Write = _encode


def _quoted_key(key: Any) -> bytes:
    """The JSON text of a number or an object as a string."""
    return _encode(_encode(key).decode())
