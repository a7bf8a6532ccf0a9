"""One reader for each column: bytes of a row to a value that is ready for JSON. Nothing is rounded.

DECIMAL is text with all its digits, BIGINT UNSIGNED a whole number, binary data base64, ENUM and SET their words.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

from ..changes import CaptureError, Column
from .json_values import json_text
from .table_map import BINARY, ColumnType, LoggedColumn
from .times import Read, datetime_reader, read_date, read_year, time_reader, timestamp_reader

Decode = Callable[[bytes], str]

_T = ColumnType
_WHOLE = {_T.TINY: ("tinyint", 1), _T.SHORT: ("smallint", 2), _T.INT24: ("mediumint", 3), _T.LONG: ("int", 4)}
_WHOLE[_T.LONGLONG] = ("bigint", 8)
_KINDS = {1: ("int16", "int16"), 2: ("int16", "int32"), 3: ("int32", "int32"), 4: ("int32", "int64"), 8: ("int64",) * 2}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # that so many decimal digits take
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

# MariaDB's character sets by the names of Python's codecs. Those with the same name are not here.
_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252", "latin2": "iso8859-2",
    "latin5": "iso8859-9", "latin7": "iso8859-13", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le",
    "utf32": "utf-32-be", "greek": "iso8859-7", "hebrew": "iso8859-8", "koi8r": "koi8-r", "koi8u": "koi8-u",
    "sjis": "shift_jis", "ujis": "euc-jp", "eucjpms": "euc-jp", "euckr": "euc-kr", "gb2312": "gb2312", "macroman":
    "mac-roman", "macce": "mac-latin2", "tis620": "tis-620",
}  # fmt: skip


def reader_of(column: LoggedColumn, charset: str, table: str) -> tuple[Read, Column]:
    """Return how values of a column are read, and the column as events tell of it."""
    kind, detail = column.type, column.detail
    if kind in _WHOLE:
        name, length = _WHOLE[kind]
        return _whole(length, column.is_unsigned), _column(
            column, name + " unsigned" * column.is_unsigned, _KINDS[length][column.is_unsigned]
        )
    if kind in _PLAIN:
        read, name, form, meaning = _PLAIN[kind]
        return read, _column(column, name, form, meaning)
    if kind in _TIMES:
        make, name, form, meaning = _TIMES[kind]
        micros = kind is _T.DATETIME2 and detail > 3
        return make(detail), _column(
            column,
            f"{name}({detail})" if detail else name,
            form,
            "io.debezium.time.MicroTimestamp" if micros else meaning,
        )
    if kind is _T.NEWDECIMAL:
        precision, scale = detail & 0xFF, detail >> 8
        return _decimal(precision, scale), _column(column, f"decimal({precision},{scale})", "string")
    if kind is _T.BIT:
        bits = detail & 0xFF | (detail >> 8) * 8
        return _bits(bits), _column(column, f"bit({bits})", *(("boolean",) if bits == 1 else ("bytes", _BITS)))
    if kind in (_T.ENUM, _T.SET):
        return _chosen(column, _decoder(charset, table, column.name))
    if kind is _T.JSON:
        return _json_reader(detail), _column(column, "json", "string", "io.debezium.data.Json")
    return _text_or_bytes(column, charset, table)


_BITS = "io.debezium.data.Bits"


def _column(column: LoggedColumn, type: str, kind: str, meaning: str = "") -> Column:
    return Column(name=column.name, type=type, kind=kind, meaning=meaning, is_key=column.is_key)


def _whole(length: int, is_unsigned: bool) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        end = at + length
        return int.from_bytes(data[at:end], "little", signed=not is_unsigned), end

    return read


def shortest_float(value: float) -> float:
    """Return the shortest number that is the same FLOAT of four bytes: 0.1 stays 0.1."""
    if value and math.isfinite(value):
        raw, magnitude = _FLOAT.pack(value), math.floor(math.log10(abs(value)))
        for digits in (6, 7, 8):
            short = round(value, digits - 1 - magnitude)
            if _FLOAT.pack(short) == raw:
                return short
    return value


def _read_float(data: bytes, at: int) -> tuple[object, int]:
    return shortest_float(_FLOAT.unpack_from(data, at)[0]), at + 4


def _read_double(data: bytes, at: int) -> tuple[object, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _read_old_time(data: bytes, at: int) -> tuple[object, int]:
    value = int.from_bytes(data[at : at + 3], "little", signed=True)
    seconds = abs(value) // 10_000 * 3600 + abs(value) // 100 % 100 * 60 + abs(value) % 100
    return (seconds if value >= 0 else -seconds) * 1_000_000, at + 3


_PLAIN: dict[ColumnType, tuple[Read, str, str, str]] = {
    _T.FLOAT: (_read_float, "float", "float", ""),
    _T.DOUBLE: (_read_double, "double", "double", ""),
    _T.DATE: (read_date, "date", "int32", "io.debezium.time.Date"),
    _T.YEAR: (read_year, "year", "int32", "io.debezium.time.Year"),
    _T.TIME: (_read_old_time, "time", "int64", "io.debezium.time.MicroTime"),
}
_TIMES: dict[ColumnType, tuple[Callable[[int], Read], str, str, str]] = {
    _T.TIME2: (time_reader, "time", "int64", "io.debezium.time.MicroTime"),
    _T.DATETIME2: (datetime_reader, "datetime", "int64", "io.debezium.time.Timestamp"),
    _T.TIMESTAMP2: (timestamp_reader, "timestamp", "string", "io.debezium.time.ZonedTimestamp"),
}


def _decimal(precision: int, scale: int) -> Read:
    whole_digits = precision - scale
    parts = [_DIGIT_BYTES[whole_digits % 9]] * (whole_digits % 9 > 0) + [4] * (whole_digits // 9)
    fraction = [(4, 9)] * (scale // 9) + [(_DIGIT_BYTES[scale % 9], scale % 9)] * (scale % 9 > 0)
    length = sum(parts) + sum(size for size, _ in fraction)

    def read(data: bytes, at: int) -> tuple[object, int]:
        raw = bytearray(data[at : at + length])
        is_negative = not raw[0] & 0x80
        raw[0] ^= 0x80
        if is_negative:
            raw = bytearray(byte ^ 0xFF for byte in raw)
        place, whole = 0, 0
        for size in parts:
            whole = whole * 1_000_000_000 + int.from_bytes(raw[place : place + size], "big")
            place += size
        text = str(whole)
        if scale:
            digits = []
            for size, count in fraction:
                digits.append(f"{int.from_bytes(raw[place : place + size], 'big'):0{count}d}")
                place += size
            text += "." + "".join(digits)
        return ("-" + text if is_negative else text), at + length

    return read


def _bits(bits: int) -> Read:
    length = (bits + 7) // 8

    def read(data: bytes, at: int) -> tuple[object, int]:
        raw = data[at : at + length]
        if bits == 1:
            return bool(raw[0]), at + length
        return b64encode(raw[::-1]).decode(), at + length  # Debezium's: the lowest byte first

    return read


def _chosen(column: LoggedColumn, decode: Decode) -> tuple[Read, Column]:
    words, length = [decode(each) for each in column.choices], column.detail
    listed = ",".join("'" + word.replace("'", "''") + "'" for word in words)

    def read_enum(data: bytes, at: int) -> tuple[object, int]:
        number = int.from_bytes(data[at : at + length], "little")
        return (words[number - 1] if number else ""), at + length  # 0: a value that was refused, MariaDB shows ''

    def read_set(data: bytes, at: int) -> tuple[object, int]:
        flags = int.from_bytes(data[at : at + length], "little")
        return ",".join(word for place, word in enumerate(words) if flags >> place & 1), at + length

    if column.type is _T.ENUM:
        return read_enum, _column(column, f"enum({listed})", "string", "io.debezium.data.Enum")
    return read_set, _column(column, f"set({listed})", "string", "io.debezium.data.EnumSet")


def _text_or_bytes(column: LoggedColumn, charset: str, table: str) -> tuple[Read, Column]:
    kind, detail = column.type, column.detail
    if kind not in _NAMES:
        raise CaptureError(
            f"column {column.name} of table {table} has a type of MySQL ({kind.name}), whose values are not decoded: "
            f"leave the table out (exclude = [{table!r}])"
        )
    if column.special:
        return _special_reader(column)
    prefix = detail if kind in (_T.BLOB, _T.GEOMETRY) else 1 + (detail > 255)
    is_text = column.collation != BINARY
    name = _NAMES[kind][is_text]
    if kind is _T.BLOB:
        name = _BLOB_SIZES.get(detail, "") + name
    elif kind is _T.GEOMETRY:
        name = column.shape or name
    else:
        name += f"({detail // _WIDEST.get(charset, 1) if is_text else detail})"
    if not is_text:
        return _bytes_reader(prefix, column), _column(column, name, "bytes")
    decode = _decoder(charset, table, column.name)

    def read(data: bytes, at: int) -> tuple[object, int]:
        start = at + prefix
        end = start + int.from_bytes(data[at:start], "little")
        return decode(data[start:end]), end

    return read, _column(column, name, "string")


_NAMES = {
    _T.VARCHAR: ("varbinary", "varchar"), _T.VAR_STRING: ("varbinary", "varchar"), _T.STRING: ("binary", "char"),
    _T.BLOB: ("blob", "text"), _T.GEOMETRY: ("geometry", "geometry"),
}  # fmt: skip


_BLOB_SIZES = {1: "tiny", 3: "medium", 4: "long"}
# Bytes of a character at most: logs have the lengths of columns in bytes. Of other character sets it is one.
_WIDEST = {
    "utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "utf8": 3, "ujis": 3, "eucjpms": 3, "ucs2": 2,
    "sjis": 2, "cp932": 2, "big5": 2, "gbk": 2, "gb2312": 2, "euckr": 2,
}  # fmt: skip


_SPECIAL: dict[str, tuple[Callable[[bytes], object], str]] = {
    "uuid": (lambda raw: UUID(bytes=raw), "io.debezium.data.Uuid"),
    "inet4": (IPv4Address, ""),
    "inet6": (IPv6Address, ""),
}


def _special_reader(column: LoggedColumn) -> tuple[Read, Column]:
    make, meaning = _SPECIAL[column.special]
    width = column.detail

    def read(data: bytes, at: int) -> tuple[object, int]:
        end = at + 1 + data[at]
        return str(make(data[at + 1 : end].ljust(width, b"\0"))), end

    return read, _column(column, column.special, "string", meaning)


def _bytes_reader(prefix: int, column: LoggedColumn) -> Read:
    width = column.detail if column.type is _T.STRING else 0  # BINARY(n): the log leaves out zeros at its end

    def read(data: bytes, at: int) -> tuple[object, int]:
        start = at + prefix
        end = start + int.from_bytes(data[at:start], "little")
        return b64encode(data[start:end].ljust(width, b"\0")).decode(), end

    return read


def _json_reader(prefix: int) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        start = at + prefix
        end = start + int.from_bytes(data[at:start], "little")
        return json_text(data[start:end]), end

    return read


def _decoder(charset: str, table: str, column: str) -> Decode:
    """Return how text of a character set is read. Bytes that are none of it raise CaptureError, rather than be lost."""
    codec = _CODECS.get(charset, charset)
    try:
        b"".decode(codec)
    except LookupError:
        raise CaptureError(
            f"column {column} of table {table} has the character set {charset}, which is not known: leave the table "
            f"out (exclude = [{table!r}]), or convert the column to utf8mb4"
        ) from None

    def decode(raw: bytes) -> str:
        try:
            return raw.decode(codec)
        except UnicodeDecodeError:
            if codec == "cp1252":  # MariaDB's latin1 has the five bytes that Python's leaves out
                return "".join(bytes([byte]).decode(codec, "ignore") or chr(byte) for byte in raw)
            raise CaptureError(
                f"column {column} of table {table} has bytes that are no {charset}: {raw[:40]!r}. Nothing behind it "
                f"was read; correct the row, or leave the table out (exclude = [{table!r}])"
            ) from None

    return decode


def charset_of(column: LoggedColumn, charsets: Mapping[int, str], table: str) -> str:
    """Return the name of a column's character set. CaptureError if the server does not list its collation."""
    if column.collation not in charsets:
        raise CaptureError(
            f"column {column.name} of table {table} has the collation number {column.collation}, which the server does "
            f"not list in information_schema: leave the table out (exclude = [{table!r}])"
        )
    return charsets[column.collation]
