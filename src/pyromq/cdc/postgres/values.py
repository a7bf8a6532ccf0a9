"""One reader for each type: PostgreSQL's text of a value to one that is ready for JSON. Nothing is rounded.

What is no number in JSON stays text: NUMERIC with all its digits, NaN and Infinity, intervals (ISO 8601), ranges,
networks, composite types, and whatever else extensions bring.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple

from ...model.wire_text import decimal_number, whole_number
from .times import days, micros, moment_micros, moment_millis, zoned

Read = Callable[[str], object]

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_MILLIS_DIGITS = range(4)  # of a timestamp: with more it is in microseconds


class Form(NamedTuple):
    """How values of a type are read, the JSON form that they get, and Debezium's name for it."""

    read: Read
    kind: str = "string"
    meaning: str = ""
    items: str = ""  # of an array, the JSON form of its elements


def form_of(name: str, modifier: int) -> Form:
    """Return the form of one of PostgreSQL's own types. `modifier`: what stands in brackets behind it; -1: nothing."""
    if name == "timestamp":
        if modifier in _MILLIS_DIGITS:
            return Form(moment_millis, "int64", "io.debezium.time.Timestamp")
        return Form(moment_micros, "int64", "io.debezium.time.MicroTimestamp")
    if name == "bit":
        return Form(_flag, "boolean") if modifier == 1 else Form(_bits, "bytes", "io.debezium.data.Bits")
    return _FORMS.get(name, AS_TEXT)


def _text(text: str) -> str:
    return text


def _whole(text: str) -> object:
    number = whole_number(text, _LOWEST, _HIGHEST)
    return text if number is None else number


def _real(text: str) -> object:
    number = decimal_number(text)
    return text if number is None else number


def _flag(text: str) -> bool:
    return text in ("t", "1")


def _bytes(text: str) -> str:
    return b64encode(bytes.fromhex(text[2:])).decode()


def _bits(text: str) -> str:
    return b64encode(int(text, 2).to_bytes((len(text) + 7) // 8, "little")).decode()  # Debezium's: lowest byte first


AS_TEXT = Form(_text)
ENUM = Form(_text, meaning="io.debezium.data.Enum")
_FORMS = {
    "bool": Form(_flag, "boolean"), "int2": Form(_whole, "int16"), "int4": Form(_whole, "int32"),
    "int8": Form(_whole, "int64"), "oid": Form(_whole, "int64"), "float4": Form(_real, "float"),
    "float8": Form(_real, "double"), "bytea": Form(_bytes, "bytes"),
    "date": Form(days, "int32", "io.debezium.time.Date"), "time": Form(micros, "int64", "io.debezium.time.MicroTime"),
    "timestamptz": Form(zoned, meaning="io.debezium.time.ZonedTimestamp"),
    "interval": Form(_text, meaning="io.debezium.time.Interval"), "uuid": Form(_text, meaning="io.debezium.data.Uuid"),
    "json": Form(_text, meaning="io.debezium.data.Json"), "jsonb": Form(_text, meaning="io.debezium.data.Json"),
    "xml": Form(_text, meaning="io.debezium.data.Xml"),
}  # fmt: skip
