"""MySQL's binary form of JSON to the text that MySQL itself shows of it. Pure.

A value is its type and what follows; objects and arrays have offsets to theirs, of two or of four bytes.
"""

from __future__ import annotations

import struct
from base64 import b64encode

import msgspec

from ..changes import CaptureError

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_WHOLE = {5: ("<h", 2), 6: ("<H", 2), 7: ("<i", 4), 8: ("<I", 4), 9: ("<q", 8), 10: ("<Q", 8)}
_DOUBLE, _TEXT, _OPAQUE = 11, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP = 246, 10, 11, 12, 7
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_DEEPEST = 100  # as MySQL has it


def json_text(data: bytes) -> str:
    """Return the value as text. CaptureError if the bytes are none."""
    if not data:
        return "null"  # of a column that got JSON NULL by a change of its type
    try:
        return _value(data[0], data, 1, 0)
    except (IndexError, struct.error, UnicodeDecodeError, KeyError, RecursionError) as fault:
        raise CaptureError(f"the binlog is damaged: {data[:40]!r} is no JSON ({fault})") from None


def _value(kind: int, data: bytes, at: int, depth: int) -> str:
    if kind <= _LARGE_ARRAY:
        return _container(kind, data[at:], depth + 1)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _WHOLE:
        return str(struct.unpack_from(_WHOLE[kind][0], data, at)[0])
    if kind == _DOUBLE:
        return _real(struct.unpack_from("<d", data, at)[0])
    if kind == _TEXT:
        length, at = _length(data, at)
        return _quoted(data[at : at + length].decode("utf-8"))
    if kind == _OPAQUE:
        length, start = _length(data, at + 1)
        return _opaque(data[at], data[start : start + length])
    raise CaptureError(f"the binlog has JSON of kind {kind}, which is not known. Nothing behind it was read")


def _container(kind: int, data: bytes, depth: int) -> str:
    if depth > _DEEPEST:
        raise CaptureError("the binlog has JSON that is deeper than MySQL allows: it is damaged")
    width = 2 if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else 4
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)

    def number(at: int, length: int = width) -> int:
        return int.from_bytes(data[at : at + length], "little")

    count = number(0)
    keys_at, key_width = 2 * width, width + 2
    values_at = keys_at + count * key_width if is_object else keys_at
    parts = []
    for place in range(count):
        entry = values_at + place * (1 + width)
        each, inside = data[entry], entry + 1
        is_inlined = each == _LITERAL or each in (5, 6) or (width == 4 and each in (7, 8))
        text = _value(each, data, inside if is_inlined else number(inside), depth)
        if is_object:
            key = keys_at + place * key_width
            start, length = number(key), number(key + width, 2)
            text = f"{_quoted(data[start : start + length].decode('utf-8'))}: {text}"
        parts.append(text)
    joined = ", ".join(parts)
    return f"{{{joined}}}" if is_object else f"[{joined}]"


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length of seven bits a byte, and where it ends."""
    length = 0
    for place in range(5):
        length |= (data[at + place] & 0x7F) << 7 * place
        if not data[at + place] & 0x80:
            return length, at + place + 1
    raise IndexError("a length has no end")


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _real(value: float) -> str:
    text = repr(value)
    return text.replace("e+", "e").replace("e0", "e").replace("e-0", "e-")


def _opaque(kind: int, data: bytes) -> str:
    """Return what JSON has no words for: decimals as numbers, moments as text, else MySQL's own form."""
    if kind == _DECIMAL:
        return _decimal(data)
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return f'"{_moment(kind, int.from_bytes(data[:8], "little", signed=True))}"'
    return f'"base64:type{kind}:{b64encode(data).decode()}"'


def _moment(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, rest = packed & 0xFFFFFF, packed >> 24
    clock = f"{rest >> 6 & 0x3F:02d}:{rest & 0x3F:02d}.{micros:06d}"
    if kind == _TIME:
        return f"{sign}{rest >> 12 & 0x3FF:02d}:{clock}"
    day, months = rest >> 17 & 0x1F, rest >> 22
    found = f"{months // 13:04d}-{months % 13:02d}-{day:02d}"
    return found if kind == _DATE else f"{found} {rest >> 12 & 0x1F:02d}:{clock}"


def _decimal(data: bytes) -> str:
    precision, scale, raw = data[0], data[1], bytearray(data[2:])
    is_negative = not raw[0] & 0x80
    raw[0] ^= 0x80
    if is_negative:
        raw = bytearray(byte ^ 0xFF for byte in raw)
    whole = precision - scale
    sizes = [(_DECIMAL_BYTES[whole % 9], whole % 9)] * (whole % 9 > 0) + [(4, 9)] * (whole // 9)
    fraction = [(4, 9)] * (scale // 9) + [(_DECIMAL_BYTES[scale % 9], scale % 9)] * (scale % 9 > 0)
    place, digits = 0, []
    for size, count in [*sizes, *fraction]:
        digits.append(f"{int.from_bytes(raw[place : place + size], 'big'):0{count}d}")
        place += size
    text = "".join(digits)
    ahead = text[:whole].lstrip("0") or "0"
    return ("-" if is_negative else "") + ahead + (f".{text[whole:]}" if scale else "")
