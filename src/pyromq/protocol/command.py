"""A remoting command and its header in both encodings: JSON (type 0) and RocketMQ's binary form (type 1).

The header codec knows nothing of single operations: their fields are the `fields` map, typed by `headers/`.
No sockets, no clock. `frame.py` puts length words around what is encoded here.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import msgspec

from ..errors import ProtocolError
from ..model.client_info import Language, Version
from .json import parse_json

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


class Encoding(IntEnum):
    """The serialize type: high byte of the header-length word."""

    JSON = 0
    ROCKETMQ = 1


class Command(msgspec.Struct):
    """One request or response. `language` is None where the peer named one that we do not know."""

    code: int
    opaque: int = 0
    flag: int = 0
    language: Language | None = Language.PYTHON
    version: int = Version.CURRENT
    remark: str | None = None
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    body: bytes | memoryview = b""
    encoding: Encoding = Encoding.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


def encode_header(command: Command) -> bytes:
    """The header bytes in the command's own encoding."""
    if command.encoding is Encoding.JSON:
        return _JSON_ENCODER.encode(
            _JsonOut(
                code=command.code,
                extFields=command.fields or msgspec.UNSET,
                flag=command.flag,
                language=(Language.OTHER if command.language is None else command.language).name,
                opaque=command.opaque,
                remark=msgspec.UNSET if command.remark is None else command.remark,
                version=command.version,
            )
        )
    return _encode_binary(command)


def decode_header(encoding: int, header: bytes | memoryview, max_fields: int) -> Command:
    """A command without its body. ProtocolError says what is wrong with the bytes."""
    if encoding == Encoding.JSON:
        command = _decode_json(header)
    elif encoding == Encoding.ROCKETMQ:
        command = _decode_binary(header)
    else:
        raise ProtocolError(f"unknown serialize type {encoding} in the header-length word (0 is JSON, 1 ROCKETMQ)")
    if len(command.fields) > max_fields:
        raise ProtocolError(f"{len(command.fields)} header fields, the limit is {max_fields}")
    return command


# --- JSON: fastjson's alphabetical order of keys, absent values left out ---------------------------------------------


class _JsonOut(msgspec.Struct):
    code: int
    extFields: dict[str, str] | msgspec.UnsetType  # noqa: N815 - field names are the wire's
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str = "JSON"  # noqa: N815
    version: int = 0


# Clients that are not Java send numbers and booleans among the fields (ali-ons, C++), some send null.
_FieldValue = str | int | float | bool | None


class _JsonIn(msgspec.Struct, rename={"ext_fields": "extFields"}):
    code: int = 0
    ext_fields: dict[str, _FieldValue] | None = None
    flag: int = 0
    language: str | int | None = None
    opaque: int = 0
    remark: str | None = None
    version: int = 0


_JSON_ENCODER = msgspec.json.Encoder()
_JSON_DECODER = msgspec.json.Decoder(_JsonIn)


def _decode_json(header: bytes | memoryview) -> Command:
    try:
        raw = _JSON_DECODER.decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raw = _decode_json_leniently(header)
    fields: Any = raw.ext_fields or {}
    for value in fields.values():
        if type(value) is not str:
            fields = {name: _as_text(v) for name, v in fields.items() if v is not None}
            break
    return Command(
        code=_int32(raw.code, "code"),
        opaque=_int32(raw.opaque, "opaque"),
        flag=_int32(raw.flag, "flag"),
        language=_language(raw.language),
        version=_int32(raw.version, "version"),
        remark=raw.remark,
        fields=fields,
    )


def _decode_json_leniently(header: bytes | memoryview) -> _JsonIn:
    """What the fast decoder refuses may still be fastjson's dialect, which every Java server reads."""
    value = parse_json(bytes(header))
    if not isinstance(value, dict):
        raise ProtocolError(f"the header is JSON but no object: {type(value).__name__}")
    try:
        return msgspec.convert(value, _JsonIn, strict=False)
    except (msgspec.ValidationError, UnicodeDecodeError) as fault:
        raise ProtocolError(f"the JSON header cannot be read: {fault}") from None


def _as_text(value: str | int | float | bool) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def _language(value: str | int | None) -> Language | None:
    try:
        return Language[value] if isinstance(value, str) else Language(-1 if value is None else value)
    except (KeyError, ValueError):
        return None


def _int32(value: int, name: str) -> int:
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return value
    raise ProtocolError(f"{name} {value} does not fit 32 bits")


# --- binary: | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark 4+n | fields 4+n | ------------------------

_FIXED = struct.Struct(">hBhii")
_LENGTH = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">h")


def _encode_binary(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    parts = [
        # Java truncates the code to 16 bits too: 200050 leaves as 3442. Such codes need the JSON form.
        _FIXED.pack(
            (command.code + 0x8000 & 0xFFFF) - 0x8000,
            Language.OTHER if command.language is None else command.language,
            (command.version + 0x8000 & 0xFFFF) - 0x8000,
            command.opaque,
            command.flag,
        ),
        _LENGTH.pack(len(remark)),
        remark,
    ]
    block = bytearray()
    for name, value in command.fields.items():
        key, data = name.encode(), value.encode()
        block += _KEY_LENGTH.pack(len(key)) + key + _LENGTH.pack(len(data)) + data
    parts += [_LENGTH.pack(len(block)), bytes(block)]
    return b"".join(parts)


def _decode_binary(header: bytes | memoryview) -> Command:
    data = bytes(header)
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(data)
        remark, at = _take(data, _FIXED.size, _LENGTH)
        block_length = _LENGTH.unpack_from(data, at)[0]
        at += _LENGTH.size
        if block_length < 0 or at + block_length > len(data):
            raise ProtocolError(f"field block of {block_length} bytes in a header with {len(data) - at} left")
        end = at + block_length
        fields: dict[str, str] = {}
        while at < end:
            name, at = _take(data, at, _KEY_LENGTH)
            value, at = _take(data, at, _LENGTH)
            if value:  # a value of no length is null in Java
                fields[name] = value
    except struct.error as fault:
        raise ProtocolError(f"the binary header ends early: {fault}") from None
    except UnicodeDecodeError as fault:
        raise ProtocolError(f"text in the binary header is not UTF-8: {fault}") from None
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        language=_language(language),
        version=version,
        remark=remark or None,
        fields=fields,
        encoding=Encoding.ROCKETMQ,
    )


def _take(data: bytes, at: int, length: struct.Struct) -> tuple[str, int]:
    """One text with its length before it, and the place behind it."""
    size = length.unpack_from(data, at)[0]
    start = at + length.size
    if size < 0 or start + size > len(data):
        raise ProtocolError(f"text of {size} bytes at {start} in a header of {len(data)}")
    return data[start : start + size].decode(), start + size
