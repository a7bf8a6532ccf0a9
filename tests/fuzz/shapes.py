"""What each request code carries, read off the typed headers and bodies of `protocol/`: fields with their kinds, trees.

So a header or a body that gets a new field is fuzzed with it, and nothing here repeats a layout.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from pyromq.protocol.headers.header import Header
from pyromq.protocol.requests import NOTHING, ROWS
from pyromq.protocol.row import Content, Plain
from tests.fuzz import values
from tests.fuzz.values import World


class Field(NamedTuple):
    """A header field: its name on the wire, `int`, `bool` or `str`, and whether a request without it is malformed."""

    name: str
    kind: str
    required: bool


@cache
def header_fields(header: type[Header] | None) -> tuple[Field, ...]:
    if header is None:
        return ()
    described: Any = inspect.type_info(header)
    return tuple(Field(one.encode_name, _kind(one.type), one.required) for one in described.fields)


@cache
def fields_of(code: int) -> tuple[Field, ...]:
    """The fields of a request."""
    return header_fields(content_of(code).header)


@cache
def content_of(code: int) -> Content[Any, Any]:
    return ROWS[code].takes if code in ROWS else NOTHING


def _kind(described: Any) -> str:
    kinds = described.types if isinstance(described, inspect.UnionType) else (described,)
    for one in kinds:
        if isinstance(one, inspect.IntType):
            return "int"
        if isinstance(one, inspect.BoolType):
            return "bool"
    return "str"


def tree(rng: random.Random, world: World, kind: Any) -> Any:
    """A value of a body's type as plain lists, dictionaries, texts and numbers."""
    return _Trees(rng, world).of(_described(kind), "", 0)


@cache
def _described(kind: Any) -> Any:
    return inspect.type_info(kind)


class _Trees:
    """Makes values of described types. Optional parts are left out at times, and always where a type holds itself."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self._rng = rng
        self._world = world

    def of(self, kind: Any, name: str, depth: int) -> Any:
        rng = self._rng
        match kind:
            case inspect.UnionType():
                known = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
                return None if rng.random() < 0.15 else self.of(rng.choice(known), name, depth)
            case inspect.StructType():
                return self._struct(kind, depth)
            case inspect.ListType():
                count = rng.choice((0, 1, 1, 2, 3)) if depth < 6 else 0
                return [self.of(kind.item_type, name, depth + 1) for _ in range(count)]
            case inspect.DictType():
                count = rng.choice((0, 1, 2)) if depth < 6 else 0
                keys = [values.plausible(rng, self._world, name or "topic", "str") for _ in range(count)]
                return {key: self.of(kind.value_type, "", depth + 1) for key in keys}
            case inspect.EnumType():
                return rng.choice([one.value for one in kind.cls])
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType():
                return self._number(name)
            case _:
                return values.plausible(rng, self._world, name, "str")

    def _struct(self, kind: inspect.StructType, depth: int) -> dict[str, Any]:
        made = {}
        for one in kind.fields:
            if one.required or self._rng.random() < 0.7:
                made[one.encode_name] = self.of(one.type, one.encode_name, depth + 1)
        return made

    def _number(self, name: str) -> int:
        text = values.plausible(self._rng, self._world, name, "int")
        return int(text) if text.lstrip("-").isdecimal() else 0


def is_json(body: object) -> bool:
    return body is not None and not isinstance(body, Plain)


def as_struct(kind: Any, value: Any) -> Any:
    """The typed value of a tree, or None where the tree is none of that type."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, ValueError, NotImplementedError):
        return None
