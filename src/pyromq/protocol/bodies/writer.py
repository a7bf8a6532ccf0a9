"""Writes bodies as JSON in one of the two dialects. `body.py` hands these functions on.

msgspec writes everything that has string keys. Only what holds a map with other keys is walked here: numbers stay
unquoted in Java's dialect, queues are objects there and the string of their JSON text in the standard one. Bodies of
our own (`own.py`) are written as msgspec does, in the order of their declaration.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice, repeat
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from ..json import Dialect
from .keyed import ByQueue, MessageQueue
from .own import OwnBody

Write = Callable[[Any], bytes]

_encode = msgspec.json.Encoder().encode
_ENTRIES = 32  # of a map or list in one part


def encode_body(value: Any, dialect: Dialect = Dialect.STANDARD) -> bytes:
    """Encode as compact JSON: no blanks at all, because the Go client splits this text by hand."""
    return (_writer(_kind(value), dialect) or _encode)(value)


def body_parts(value: Any, dialect: Dialect = Dialect.STANDARD) -> Iterator[bytes]:
    """Return what `encode_body` does in small parts, so that a table of megabytes need not be encoded in one go.

    A part is some entries of a map or list; structs without a map by queue are whole.
    """
    return _parts(value, _kind(value), dialect)


def _kind(value: Any) -> Any:
    """Return the type of a body; of a list, with that of its first item."""
    kind: Any = type(value)
    return list[type(value[0])] if kind is list and value else kind  # type: ignore[misc]


@cache
def _writer(kind: Any, dialect: Dialect) -> Write | None:
    """Return how to write values of this type; None where msgspec's own way is right."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is ByQueue:
        return _map_writer(_key_writer(MessageQueue, dialect), _writer(parts[0], dialect))
    if origin is dict:
        return _dict_writer(parts[0], _writer(parts[1], dialect), dialect)
    if origin is list:
        item = _writer(parts[0], dialect)
        return item and _list_writer(item)
    if origin in (Union, types.UnionType):
        return next(filter(None, (_writer(part, dialect) for part in parts)), None)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not issubclass(kind, OwnBody):
        return _struct_writer(kind, dialect)
    return None


class _Field(NamedTuple):
    key: bytes  # with its colon
    name: str
    default: Any
    kind: Any
    write: Write | None


@cache
def _fields(kind: type[msgspec.Struct], dialect: Dialect) -> list[_Field]:
    """Return the fields in alphabetical order, as Java; a subclass declares its own last."""
    declared = [
        _Field(_encode(f.encode_name) + b":", f.name, f.default, f.type, _writer(f.type, dialect))
        for f in msgspec.structs.fields(kind)
    ]
    return sorted(declared, key=lambda field: field.key)


def _members(value: Any, dialect: Dialect) -> Iterator[tuple[_Field, Any]]:
    for field in _fields(type(value), dialect):  # type: ignore[arg-type]
        item = getattr(value, field.name)
        if item is not None and item != field.default:  # as msgspec leaves out; `always` has no default to compare with
            yield field, item


def _struct_writer(kind: type[msgspec.Struct], dialect: Dialect) -> Write | None:
    fields = _fields(kind, dialect)
    is_in_order = [field.name for field in fields] == [field.name for field in msgspec.structs.fields(kind)]
    if is_in_order and not any(field.write for field in fields):
        return None

    def write_struct(value: Any) -> bytes:
        members = [field.key + (field.write or _encode)(item) for field, item in _members(value, dialect)]
        return b"{" + b",".join(members) + b"}"

    return write_struct


def _dict_writer(key: Any, item: Write | None, dialect: Dialect) -> Write | None:
    if item is None and (key is str or dialect is Dialect.STANDARD):
        return None
    return _map_writer(_key_writer(key, dialect), item)


def _key_writer(key: Any, dialect: Dialect) -> Write:
    """Return how a key is written: texts are quoted anyway, everything else in the standard dialect alone."""
    return _encode if key is str or dialect is Dialect.JAVA else _quoted_key


def _map_writer(write_key: Write, write_item: Write | None) -> Write:
    write = write_item or _encode
    return lambda value: b"{" + b",".join([write_key(k) + b":" + write(v) for k, v in value.items()]) + b"}"


def _list_writer(item: Write) -> Write:
    return lambda value: b"[" + b",".join([item(v) for v in value]) + b"]"


def _quoted_key(key: Any) -> bytes:
    """Return the JSON text of a number or an object as a string."""
    return _encode(_encode(key).decode())


# --- in parts -------------------------------------------------------------------------------------------------------


def _parts(value: Any, kind: Any, dialect: Dialect) -> Iterator[bytes]:
    kind = _present(kind)
    origin, of = get_origin(kind), get_args(kind)
    if isinstance(value, msgspec.Struct) and not isinstance(value, OwnBody):
        yield from _struct_parts(value, dialect)
    elif isinstance(value, Mapping) and origin in (dict, ByQueue):
        is_by_queue = origin is ByQueue
        write_key = _key_writer(MessageQueue if is_by_queue else of[0], dialect)
        heads = (write_key(key) + b":" for key in value)
        yield from _entry_parts(b"{}", heads, value.values(), of[0] if is_by_queue else of[1], dialect)
    elif isinstance(value, list) and origin is list:
        yield from _entry_parts(b"[]", repeat(b""), value, of[0], dialect)
    else:
        yield (_writer(kind, dialect) or _encode)(value)


def _struct_parts(value: msgspec.Struct, dialect: Dialect) -> Iterator[bytes]:
    separator = b"{"
    for field, item in _members(value, dialect):
        yield separator + field.key
        yield from _parts(item, field.kind, dialect)
        separator = b","
    yield b"}" if separator == b"," else b"{}"


def _entry_parts(
    ends: bytes, heads: Iterable[bytes], items: Iterable[Any], kind: Any, dialect: Dialect
) -> Iterator[bytes]:
    """Yield the entries of a map or list, each behind its head: large ones one by one, the others some at a time."""
    yield ends[:1]
    entries = zip(heads, items, strict=False)  # a list has no end of heads
    separator = b""
    if _is_large(kind):
        for head, item in entries:
            yield separator + head
            yield from _parts(item, kind, dialect)
            separator = b","
    else:
        write = _writer(kind, dialect) or _encode
        while run := list(islice(entries, _ENTRIES)):
            yield separator + b",".join([head + write(item) for head, item in run])
            separator = b","
    yield ends[1:]


@cache
def _is_large(kind: Any) -> bool:
    """Return whether one value of this type may be a table by itself."""
    kind = _present(kind)
    if get_origin(kind) in (dict, ByQueue, list):
        return True
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return is_struct and any(get_origin(_present(f.type)) is ByQueue for f in msgspec.structs.fields(kind))


def _present(kind: Any) -> Any:
    """Return `X` for `X | None`."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind
