"""A remoting command and its header in both encodings: JSON (type 0) and RocketMQ's binary form (type 1).

The header codec knows nothing of single operations: their fields are the `fields` map, typed by `headers/`.
No sockets, no clock. `frame.py` puts length words around what is encoded here.
"""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from ..errors import ProtocolError
from ..model.client_info import Language, Version
from .ints import Int32, java_text
from .json import JsonLimits, read_json

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


class Encoding(IntEnum):
    """The serialize type: high byte of the header-length word."""

    JSON = 0
    ROCKETMQ = 1


class Command(msgspec.Struct, gc=False):
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
    if command.encoding is Encoding.JSON:
        return _JSON_ENCODER.encode(
            _JsonOut(
                +command.code,  # a plain number, also where it is a row of `requests.py`
                command.fields or msgspec.UNSET,
                command.flag,
                _LANGUAGE_NAMES[command.language],
                command.opaque,
                msgspec.UNSET if command.remark is None else command.remark,
                "JSON",
                command.version,
            )
        )
    return _encode_binary(command)


def decode_header(encoding: int, header: bytes | memoryview, max_fields: int) -> Command:
    """Return a command without its body. ProtocolError says what is wrong with the bytes."""
    if encoding == 0:
        if len(header) > _SMALL_HEADER:
            _check_strings(header, max_fields)
        command = _decode_json(header)
    elif encoding == 1:
        command = _decode_binary(bytes(header), max_fields)
    else:
        raise ProtocolError(f"unknown serialize type {encoding} in the header-length word (0 is JSON, 1 ROCKETMQ)")
    if len(command.fields) > max_fields:
        raise ProtocolError(f"{len(command.fields)} header fields, the limit is {max_fields}")
    return command


_SMALL_HEADER = 16 << 10  # bytes: has not many fields, whatever they are
_OTHER_STRINGS = 64  # of a header: the names of its members and what is no field


def _check_strings(header: bytes | memoryview, max_fields: int) -> None:
    """Refuse a JSON header with many more strings than its fields may have, before they are made."""
    text = bytes(header)
    strings = (text.count(b'"') - text.count(b'\\"')) // 2
    if strings > 2 * max_fields + _OTHER_STRINGS:
        raise ProtocolError(f"{strings} strings in a JSON header, the limit of header fields is {max_fields}")


# --- JSON: fastjson's alphabetical order of keys, absent values left out ---------------------------------------------


class _JsonOut(msgspec.Struct):
    code: int
    extFields: dict[str, str] | msgspec.UnsetType  # noqa: N815 - field names are the wire's
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str  # noqa: N815
    version: int


class _JsonIn(msgspec.Struct, gc=False, rename={"fields": "extFields"}):
    code: Int32 = 0
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    flag: Int32 = 0
    language: str | int | None = None
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _LooseJsonIn(_JsonIn, gc=False, rename={"fields": "extFields"}):
    """The same as others write it: numbers and booleans among the fields (Node, C++), null for what is absent."""

    fields: dict[str, str | int | float | bool | None] = msgspec.field(default_factory=dict)  # type: ignore[assignment]


# No program writes headers in fastjson's dialect by itself; Java reads them, and so do we if they are small.
# What counts as a value there may be a comma in a text: of these a header has many (ids of a batch), and few fields.
_ODD_LIMITS = JsonLimits(bytes=16 << 20, values=4_000_000, odd_bytes=64 << 10, odd_marks=10_000, quoted_keys=2_000)
_JSON_ENCODER = msgspec.json.Encoder()
_JSON_DECODER = msgspec.json.Decoder(_JsonIn)
_LOOSE_DECODER = msgspec.json.Decoder(_LooseJsonIn, strict=False)
_LANGUAGES: dict[str | int | None, Language] = {language.name: language for language in Language} | {
    int(language): language for language in Language
}

_LANGUAGE_NAMES: dict[Language | None, str] = {language: language.name for language in Language} | {None: "OTHER"}


def _decode_json(header: bytes | memoryview) -> Command:
    try:
        raw = _JSON_DECODER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raw = _decode_loosely(header)
    return Command(raw.code, raw.opaque, raw.flag, _LANGUAGES.get(raw.language), raw.version, raw.remark, raw.fields)


def _decode_loosely(header: bytes | memoryview) -> _JsonIn:
    """Decode types that Java would not write (C++, Node do), and fastjson's dialect, which every Java server reads."""
    try:
        raw = read_json(_LOOSE_DECODER.decode, header, _ODD_LIMITS)
    except msgspec.DecodeError as fault:
        raise ProtocolError(f"the JSON header cannot be read: {fault}") from None
    raw.fields = {name: java_text(value) for name, value in raw.fields.items() if value is not None}
    return raw


# --- binary: | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark 4+n | fields 4+n | ------------------------

_FIXED = struct.Struct(">hBhii")
_HEAD = struct.Struct(">hBhiii")  # with the remark's length
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
        b"",
    ]
    for name, value in command.fields.items():
        key, data = name.encode(), value.encode()
        if len(key) > 0x7FFF:
            raise ProtocolError(f"a field name of {len(key)} bytes does not fit the binary header: {name[:40]!r}...")
        parts += (_KEY_LENGTH.pack(len(key)), key, _LENGTH.pack(len(data)), data)
    parts[3] = _LENGTH.pack(sum(map(len, parts)) - _FIXED.size - _LENGTH.size - len(remark))
    return b"".join(parts)


def _decode_binary(data: bytes, max_fields: int) -> Command:
    end = len(data)
    try:
        code, language, version, opaque, flag, remark_length = _HEAD.unpack_from(data)
        fields_at = _HEAD.size + remark_length
        if remark_length < 0 or fields_at > end:
            raise ProtocolError(f"remark of {remark_length} bytes in a header of {end}")
        at = fields_at + _LENGTH.size
        block_length = _LENGTH.unpack_from(data, fields_at)[0]
        if block_length < 0 or at + block_length > end:
            raise ProtocolError(f"field block of {block_length} bytes in a header with {end - at} left")
        fields = _binary_fields(data, at, at + block_length, max_fields)
    except struct.error:
        raise ProtocolError(f"the binary header ends early, it has {end} bytes") from None
    # Java decodes text with replacement characters too, in both encodings.
    remark = data[_HEAD.size : fields_at].decode("utf-8", "replace")
    return Command(
        code, opaque, flag, _LANGUAGES.get(language), version, remark or None, fields, b"", Encoding.ROCKETMQ
    )


def _binary_fields(data: bytes, at: int, end: int, max_fields: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    left = max_fields
    key_length, value_length = _KEY_LENGTH.unpack_from, _LENGTH.unpack_from
    while at < end:
        key_at = at + 2
        value_word_at = key_at + key_length(data, at)[0]
        value_at = value_word_at + 4
        at = value_at + value_length(data, value_word_at)[0]
        if not key_at <= value_word_at <= value_at <= at <= end:
            raise ProtocolError(f"a field at {key_at} leaves the block of fields, which ends at {end}")
        left -= 1
        if left < 0:
            raise ProtocolError(f"at least {max_fields + 1} header fields, the limit is {max_fields}")
        if at > value_at:  # a value of no length is null in Java
            fields[data[key_at:value_word_at].decode("utf-8", "replace")] = data[value_at:at].decode("utf-8", "replace")
    return fields
