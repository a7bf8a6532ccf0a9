"""JSON in fastjson's dialect, which every Java peer reads and writes. Read here, written by `bodies/`.

Reading tries msgspec first. What that refuses is turned into standard JSON and tried again: quickly where it is not
UTF-8, has null for what is absent, or only the keys of maps are odd, as Java's own programs write them; else by a small
bounded scanner that knows the whole dialect (names without quotes, single quotes, stray commas, comments, NaN). An
object used as a key becomes the string of its own JSON text (`{{"a":1}:2}` reads as `{'{"a":1}': 2}`), which is also
how fastjson quotes it. Nothing is begun before it is known to be small enough: a text costs a few milliseconds at most.
No sockets, no types: a value that is well-formed but of the wrong type is for the caller to refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from ..errors import ProtocolError

T = TypeVar("T")


class Dialect(Enum):
    """How map keys that are no strings are written."""

    JAVA = "java"  # {0:"a"} and {{"queueId":0}:1}, as Java's own servers answer
    STANDARD = "standard"  # {"0":"a"} and {"{\"queueId\":0}":1}, for `acceptStandardJsonOnly` and every other reader


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """What a text may make us do before its content is looked at. The frame's length has been checked before.

    Marks are commas, braces and quotes: whoever repairs a text has to look at each of them.
    """

    depth: int = 64
    bytes: int = 4 << 20
    values: int = 100_000  # in standard JSON: each costs memory, and up to 0.3 microseconds
    odd_bytes: int = 1 << 20  # where a text has to be repaired
    odd_marks: int = 40_000  # there: each costs up to 0.2 microseconds
    quoted_keys: int = 5_000  # keys that Java left without quotes: each costs one or two
    scanned_bytes: int = 64 << 10  # in the rest of the dialect, which no program writes much of
    scanned_steps: int = 2_000  # values, keys and commas there: each costs up to five


DEFAULT_LIMITS = JsonLimits()  # for what anybody may send
# For what a tool has asked for itself: the tables of a large cluster.
ANSWER_LIMITS = JsonLimits(
    bytes=64 << 20,
    values=4_000_000,
    odd_bytes=64 << 20,
    odd_marks=16_000_000,
    quoted_keys=500_000,
    scanned_bytes=16 << 20,
    scanned_steps=500_000,
)
# For files of our own: only there to end a runaway, so far above what a store holds.
FILE_LIMITS = JsonLimits(
    bytes=1 << 40,
    values=100_000_000,
    odd_bytes=1 << 40,
    odd_marks=1 << 40,
    quoted_keys=100_000_000,
    scanned_bytes=1 << 40,
    scanned_steps=1 << 40,
)


def parse_json(data: bytes | memoryview, limits: JsonLimits = DEFAULT_LIMITS) -> Any:
    """Return the value as Python builtins. ProtocolError says what is wrong and where."""
    try:
        return read_json(_ANY.decode, data, limits)
    except msgspec.DecodeError as fault:
        raise ProtocolError(f"not JSON that we can hold: {fault}") from None


def read_json(decode: Callable[[bytes | memoryview], T], data: bytes | memoryview, limits: JsonLimits) -> T:
    """Return what `decode` makes of the text, or of its standard form. ProtocolError, or what `decode` said at last."""
    _check_size(data, limits)
    try:
        return decode(data)
    except _REFUSALS as fault:
        refusal = fault
    text = bytes(data)
    if isinstance(refusal, UnicodeDecodeError) or not _is_utf8(text):
        # Java decodes with replacement characters too: text that is not UTF-8 arrives damaged, but it arrives.
        text = text.decode("utf-8", "replace").encode()
        try:
            return decode(text)
        except _REFUSALS as fault:
            refusal = fault
    if isinstance(refusal, RecursionError):
        raise ProtocolError(f"JSON nested deeper than {limits.depth}")
    odd_from = _fault_place(refusal)
    _check_odd(text, odd_from, limits, refusal)
    if isinstance(refusal, msgspec.ValidationError) and b"null" in text:
        with suppress(*_REFUSALS):
            return decode(_without_nulls(text))
    with suppress(*_REFUSALS):
        return decode(text[:odd_from] + quote_keys(text[odd_from:], limits))
    return decode(standard_json(text, limits))


def _check_size(data: bytes | memoryview, limits: JsonLimits) -> None:
    """Refuse a text by its length and a cheap upper bound of its values, before memory is spent on them."""
    if len(data) > limits.bytes:
        raise ProtocolError(f"JSON of {len(data)} bytes, the limit is {limits.bytes}")
    if len(data) <= limits.values:
        return
    text = bytes(data)
    count = text.count(b",") + text.count(b"[") + text.count(b"{")
    if count > limits.values:
        raise ProtocolError(f"JSON with up to {count} values, the limit is {limits.values}")


def _fault_place(refusal: Exception) -> int:
    """Return where repairs begin: in front of what msgspec could not read, or at the beginning if it does not say."""
    found = _FAULT_PLACE.search(str(refusal))
    return max(0, int(found[1]) - 1) if found is not None else 0


def _check_odd(text: bytes, odd_from: int, limits: JsonLimits, refusal: Exception) -> None:
    """Refuse a text that is too large to be repaired; `refusal` is what was wrong with it."""
    if len(text) > limits.odd_bytes:
        raise ProtocolError(f"{refusal}; with {len(text)} bytes it is too large to be read as fastjson's dialect")
    marks = sum(text.count(mark, odd_from) for mark in (b",", b"{", b"[", b'"'))
    if marks > limits.odd_marks:
        raise ProtocolError(
            f"{refusal}; with {marks} commas, braces and quotes it is too large to be read as fastjson's dialect"
        )


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_nulls(text: bytes) -> bytes:
    """Leave out the members of standard JSON that are null, which Java takes as absent."""
    return msgspec.json.encode(_with_values(_ANY.decode(text)))


def _with_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_values(member) for key, member in value.items() if member is not None}
    return [_with_values(item) for item in value] if isinstance(value, list) else value


def quote_keys(data: bytes | memoryview, limits: JsonLimits = DEFAULT_LIMITS) -> bytes:
    """Put quotes around keys that are numbers or flat objects, in compact JSON. Fast, for tables of any size."""
    text = bytes(data)
    pieces: list[bytes] = []
    at = 0
    while (match := _UP_TO_KEY.match(text, at)) is not None:
        before, number, queue = match.groups()
        pieces += (before, b'"%b"' % number if number else msgspec.json.encode(queue.decode("utf-8", "replace")))
        at = match.end()
        if len(pieces) > 2 * limits.quoted_keys:
            raise ProtocolError(f"JSON with more than {limits.quoted_keys} keys that are no strings")
    pieces.append(text[at:])
    return b"".join(pieces)


def standard_json(data: bytes | memoryview, limits: JsonLimits = DEFAULT_LIMITS) -> bytes:
    """Return the same value in standard JSON, members that are null left out.

    ProtocolError says what is wrong and where.
    """
    if len(data) > limits.scanned_bytes:
        raise ProtocolError(
            f"{len(data)} bytes that are no standard JSON, the limit of the dialect is {limits.scanned_bytes}"
        )
    return _Scanner(bytes(data).decode("utf-8", "replace"), limits).whole().encode()


_ANY = msgspec.json.Decoder()
_FAULT_PLACE = re.compile(r"\(byte ([0-9]{1,12})\)")
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Possessive repeats (*+) keep no way back, so that a long string costs no memory of its own.
_TEXT_BYTES = rb'"(?:[^"\\]++|\\.)*+"'
_NUMBER_KEY = rb"-?[0-9]++(?=:)"
_OBJECT_KEY = rb'\{(?:[^{}"]++|' + _TEXT_BYTES + rb")*+\}(?=:)"
_UP_TO_KEY = re.compile(
    rb'((?:[^"{,]++|' + _TEXT_BYTES + rb"|[{,](?!" + _NUMBER_KEY + rb"|" + _OBJECT_KEY + rb"))*+[{,])"
    rb"(?:(" + _NUMBER_KEY + rb")|(" + _OBJECT_KEY + rb"))",
    re.DOTALL,
)
_BLANK = re.compile(r"(?:[\s\x08\ufeff]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_PLAIN_STRING = re.compile(r'"[^"\\\x00-\x1f\ud800-\udfff]*+"')
_STRING = {quote: re.compile(rf"{quote}((?:[^{quote}\\]++|\\.)*+){quote}", re.DOTALL) for quote in "\"'"}
_NUMBER = re.compile(r"([+-]?)0*+([0-9]*)(?<=[0-9])(\.[0-9]*+)?([eE][+-]?[0-9]++)?[LSBFD]?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$.\-@%/]*", re.ASCII)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {str(n): chr(n) for n in range(8)}
_WORDS = {"true": "true", "false": "false", "null": "null", "undefined": "null", "NaN": "null"}
_LONGEST_NUMBER = 64
_LONGEST_ODD_STRING = 1 << 20  # these are unescaped one by one


class _Scanner:
    """One pass over one text. Recursive, so `depth` bounds the stack as well."""

    def __init__(self, text: str, limits: JsonLimits) -> None:
        self._text = text
        self._limits = limits
        self._at = 0
        self._steps = 0
        self._in_key = False

    def whole(self) -> str:
        value = self._value(0)
        if self._next():
            raise self._fault("the end was expected")
        return value

    def _next(self) -> str:
        """Return the next character that means something, not consumed; empty at the end."""
        blank = _BLANK.match(self._text, self._at)
        if blank is not None:
            self._at = blank.end()
        return self._text[self._at : self._at + 1]

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self._limits.scanned_steps:
            raise self._fault(f"more than {self._limits.scanned_steps} values, keys and commas")

    def _value(self, depth: int) -> str:
        self._step()
        char = self._next()
        if char in ("{", "["):
            if depth >= self._limits.depth:
                raise self._fault(f"nested deeper than {self._limits.depth}")
            return self._object(depth) if char == "{" else self._array(depth)
        if char in ('"', "'"):
            return self._string(char)
        return self._number() or self._constant()

    def _object(self, depth: int) -> str:
        self._at += 1
        members = []
        first = True
        while self._another("}", first):
            first = False
            key = self._key(depth)
            if self._next() != ":":
                raise self._fault("':' was expected behind a key")
            self._at += 1
            value = self._value(depth + 1)
            if value != "null":
                members.append(f"{key}:{value}")
        return "{" + ",".join(members) + "}"

    def _array(self, depth: int) -> str:
        self._at += 1
        items: list[str] = []
        while self._another("]", not items):
            items.append(self._value(depth + 1))
        return "[" + ",".join(items) + "]"

    def _another(self, end: str, first: bool) -> bool:
        """Skip the commas, as many as there are. Return False, and skip the end, when the container is closed."""
        commas = 0
        while (char := self._next()) == ",":
            self._step()
            self._at += 1
            commas += 1
        if char == end:
            self._at += 1
            return False
        if not char:
            raise self._fault(f"'{end}' was expected")
        if not first and not commas:
            raise self._fault(f"',' or '{end}' was expected")
        return True

    def _key(self, depth: int) -> str:
        self._step()
        char = self._next()
        if char in ("{", "["):
            return self._object_key(depth)
        if char in ('"', "'"):
            return self._string(char)
        number = self._number()
        if number:
            return f'"{number}"'
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._fault("a key was expected")
        self._at = word.end()
        return _quoted(word[0])

    def _object_key(self, depth: int) -> str:
        # Each level of keys in keys would double the backslashes of the level below: one is all that Java writes.
        if self._in_key:
            raise self._fault("an object key inside an object key")
        self._in_key = True
        key = self._value(depth + 1)
        self._in_key = False
        return _quoted(key)

    def _string(self, quote: str) -> str:
        plain = _PLAIN_STRING.match(self._text, self._at)
        if plain is not None:
            self._at = plain.end()
            return plain[0]
        match = _STRING[quote].match(self._text, self._at)
        if match is None:
            raise self._fault("the string does not end")
        try:
            # Standard escapes and raw control characters. In single quotes it is never JSON, and raises.
            text = json.loads(match[0], strict=False)
        except ValueError:
            text = self._unescaped(match[1])
        self._at = match.end()
        return _quoted(text)

    def _unescaped(self, text: str) -> str:
        if len(text) > _LONGEST_ODD_STRING:
            raise self._fault(f"a string of more than {_LONGEST_ODD_STRING} characters in the dialect")
        return _ESCAPE.sub(_unescape, text)

    def _number(self) -> str:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            return ""
        if match.end() - match.start() > _LONGEST_NUMBER:
            raise self._fault("a number of more than 64 characters")
        self._at = match.end()
        sign, whole, fraction, exponent = match.groups()
        fraction = "" if fraction is None else fraction if len(fraction) > 1 else ".0"
        return f"{'-' if sign == '-' else ''}{whole or '0'}{fraction}{exponent or ''}"

    def _constant(self) -> str:
        word = _WORD.match(self._text, self._at)
        value = _WORDS.get(word[0]) if word else None
        if word is None or value is None:
            raise self._fault("a value was expected")
        self._at = word.end()
        return value

    def _fault(self, cause: str) -> ProtocolError:
        found = self._text[self._at : self._at + 12]
        return ProtocolError(
            f"not JSON at character {self._at}: {cause}, found {found!r}"
            if found
            else f"not JSON: {cause}, but the text ends at character {self._at}"
        )


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)  # fastjson lets any other character stand for itself


def _quoted(text: str) -> str:
    # Escapes may have made surrogates: pairs become one character, a lone one what Java would write for it.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return msgspec.json.encode(whole).decode()
