"""Python values as message bodies, both ways. Bytes are a body as they are; everything else is a codec's matter.

The codec of a client is `Json`, unless another is given. Those that need a package of their own are in `pyromq.codecs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from .errors import BadMessage, Error

T = TypeVar("T")


@runtime_checkable
class Codec(Protocol):
    """How values become bodies and bodies become values. Any object with these three is one; any thread may use it."""

    @property
    def content_type(self) -> str:
        """The media type of the bodies."""
        ...

    def encode(self, value: Any, /) -> bytes:
        """Return the value as a body. Raise anything for a value that has none: its sender gets BadMessage."""
        ...

    def decode(self, body: bytes, kind: type[T], /) -> T:
        """Return the body as a value of this type. Raise anything for a body that is none."""
        ...


@runtime_checkable
class DescribingCodec(Codec, Protocol):
    """A codec that knows the types of its values. Handlers of others are refused where they are declared."""

    def describe(self, kind: type, /) -> Mapping[str, Any]:
        """Return what an AsyncAPI message says of bodies of this type. TypeError for a type without bodies."""
        ...


class Json:
    """UTF-8 for str, JSON for everything else: dataclasses, msgspec and pydantic models, dicts, lists, dates, enums."""

    content_type = "application/json"

    def __repr__(self) -> str:
        return "Json()"

    def encode(self, value: Any, /) -> bytes:
        if isinstance(value, str):
            return value.encode()
        if hasattr(value, "model_dump_json"):  # pydantic, without importing it
            return str(value.model_dump_json()).encode()
        body = msgspec.json.encode(value)
        if b"null" in body:  # None, or a number that JSON does not have and msgspec would drop without a word
            _check_numbers(msgspec.to_builtins(value))
        return body

    def decode(self, body: bytes, kind: type[T], /) -> T:
        if kind is str:
            return body.decode()  # type: ignore[return-value]
        if hasattr(kind, "model_validate_json"):
            return kind.model_validate_json(body)  # type: ignore[attr-defined, no-any-return]
        return msgspec.json.decode(body, type=kind)


JSON = Json()


def encode_value(value: Any, codec: Codec = JSON) -> bytes:
    """Return the value as a body. BadMessage if it cannot be one."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        body = codec.encode(value)
    except BadMessage:
        raise
    except Exception as fault:  # a codec of the user's may raise anything
        raise BadMessage(f"a {type(value).__name__} cannot be a message body: {fault}", hint="Send bytes") from fault
    if not isinstance(body, bytes):
        raise BadMessage(f"{codec!r} made a {type(body).__name__} of a {type(value).__name__}, and not bytes")
    return body


def decode_value(body: bytes, kind: type[T], codec: Codec = JSON) -> T:
    """Return the body as a value of this type. ValueError says what does not fit."""
    if kind is bytes:
        return body  # type: ignore[return-value]
    try:
        return codec.decode(body, kind)
    except msgspec.MsgspecError as fault:
        raise ValueError(f"the body is no {getattr(kind, '__name__', kind)}: {fault}") from None


def choose_codec(given: Codec | None, usual: Codec) -> Codec:
    """Return the codec that was given, else the usual one. Error if it is none."""
    if given is None:
        return usual
    check_codec(given)
    return given


def check_codec(codec: object) -> None:
    """Raise Error unless this is a codec."""
    if isinstance(codec, type) or not isinstance(codec, Codec):
        hint = "Write codec=pyromq.Json(), or give an object with content_type, encode and decode"
        raise Error(f"codec is {codec!r}, and not a pyromq.Codec", hint=hint)


def check_type(codec: Codec, kind: Any, whose: str) -> None:
    """Raise Error for a type that the codec has no bodies of, where it can say that."""
    if kind is not bytes and isinstance(codec, DescribingCodec):
        try:
            codec.describe(kind)
        except TypeError as fault:
            raise Error(f"{whose}: {fault}", hint="Give it another type, or another codec") from None


def _check_numbers(value: Any) -> None:
    """Raise ValueError for a number in the value that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"JSON has no number {value}")
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            _check_numbers(each)
