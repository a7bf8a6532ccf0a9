"""Protocol Buffers: bodies are messages of the classes that `protoc` generates.

    pyromq.connect(codec=pyromq.Protobuf())

    async def bill(order: shop_pb2.Order) -> None: ...

The bodies are what every other protobuf program writes and reads. Needs `pip install 'pyromq[protobuf]'`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ..client.errors import BadMessage, NotSupported
from ..text.extras import install_command

T = TypeVar("T")

# A message whose fields all have their defaults is no bytes at all, and brokers refuse a body without any. Instead this
# is sent: field 536870911 (the highest number there is) = 0. Readers that do not know a field skip it.
NOTHING = b"\xf8\xff\xff\xff\x0f\x00"


class Protobuf:
    """Any thread may use it."""

    content_type = "application/x-protobuf"

    def __init__(self) -> None:
        try:
            from google.protobuf.message import DecodeError, Message
        except ImportError:
            raise NotSupported("protobuf is not installed", hint=f"Type: {install_command('protobuf')}") from None
        self._message, self._decode_error = Message, DecodeError

    def __repr__(self) -> str:
        return "Protobuf()"

    def encode(self, value: Any, /) -> bytes:
        """Return the message in wire format. BadMessage for what is none, or lacks a required field."""
        if not isinstance(value, self._message):
            hint = "Send an object of a class that protoc generated, or bytes"
            raise BadMessage(f"the value is a {type(value).__name__}, and not a protobuf message", hint=hint)
        return value.SerializeToString() or NOTHING

    def decode(self, body: bytes, kind: type[T], /) -> T:
        """Return the message of this class. ValueError for a body that is none."""
        self._check(kind)
        made: Any = kind()
        try:
            made.ParseFromString(b"" if body == NOTHING else body)
        except self._decode_error as fault:
            raise ValueError(f"the body is no {kind.__name__}: {fault}") from None
        return made  # type: ignore[no-any-return]

    def describe(self, kind: Any, /) -> dict[str, Any]:
        """Return the message's full name and file for AsyncAPI. TypeError for another class."""
        self._check(kind)
        descriptor = kind.DESCRIPTOR
        return {
            "name": descriptor.full_name,
            "x-protobuf": {"message": descriptor.full_name, "file": descriptor.file.name},
        }

    def _check(self, kind: Any) -> None:
        if not isinstance(kind, type) or not issubclass(kind, self._message):
            raise TypeError(f"{getattr(kind, '__name__', kind)} is no class of protobuf messages")
