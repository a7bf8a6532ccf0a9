"""Python values as message bodies, both ways: bytes as they are, str as UTF-8, everything else as JSON.

msgspec knows dataclasses, its own structs, dicts, lists, dates and enums; pydantic models speak for themselves.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

from .errors import BadMessage

T = TypeVar("T")


def encode_value(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        if isinstance(value, str):
            return value.encode()
        if hasattr(value, "model_dump_json"):  # pydantic, without importing it
            return str(value.model_dump_json()).encode()
        body = msgspec.json.encode(value)
        if b"null" in body:  # None, or a number that JSON does not have and msgspec would drop without a word
            _check_numbers(msgspec.to_builtins(value))
        return body
    except (TypeError, ValueError, msgspec.MsgspecError) as fault:
        raise BadMessage(f"a {type(value).__name__} cannot be a message body: {fault}", hint="Send bytes") from None


def _check_numbers(value: Any) -> None:
    """Raise ValueError for a number in the value that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"JSON has no number {value}")
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            _check_numbers(each)


def decode_value(body: bytes, kind: type[T]) -> T:
    """Return the body as a value of this kind. ValueError says what does not fit."""
    if kind is bytes:
        return body  # type: ignore[return-value]
    if kind is str:
        return body.decode()  # type: ignore[return-value]
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(body)  # type: ignore[attr-defined, no-any-return]
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as fault:
        raise ValueError(f"the body is no {getattr(kind, '__name__', kind)}: {fault}") from None
