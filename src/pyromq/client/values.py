"""Python values as message bodies, both ways: bytes as they are, str as UTF-8, everything else as JSON.

msgspec knows dataclasses, its own structs, dicts, lists, dates and enums; pydantic models speak for themselves.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .errors import BadMessage

T = TypeVar("T")


def encode_value(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if hasattr(value, "model_dump_json"):  # pydantic, without importing it
        return str(value.model_dump_json()).encode()
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError) as fault:
        raise BadMessage(f"a {type(value).__name__} cannot be a message body: {fault}", hint="Send bytes") from None


def decode_value(body: bytes, kind: type[T]) -> T:
    """ValueError says what does not fit."""
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
