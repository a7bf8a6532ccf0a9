"""The whole of fastjson's dialect, turned into standard JSON. Called by `json.py` for what msgspec refuses.

Known are names without quotes, single quotes, stray commas, comments, NaN, and keys of maps that are no strings: an
object used as a key becomes the string of its own JSON text (`{{"a":1}:2}` reads as `{'{"a":1}': 2}`), which is also
how fastjson quotes it.
"""

from __future__ import annotations

import codecs
import json
import re

import msgspec

from ..errors import ProtocolError

codecs.lookup("utf-16-le")  # imported here, and not by its first use
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


def quote_keys(text: bytes, most: int) -> bytes:
    """Quote keys that are numbers or flat objects, in compact JSON of any size. ProtocolError if more than `most`."""
    pieces: list[bytes] = []
    at = 0
    while (match := _UP_TO_KEY.match(text, at)) is not None:
        before, number, queue = match.groups()
        pieces += (before, b'"%b"' % number if number else msgspec.json.encode(queue.decode("utf-8", "replace")))
        at = match.end()
        if len(pieces) > 2 * most:
            raise ProtocolError(f"JSON with more than {most} keys that are no strings")
    pieces.append(text[at:])
    return b"".join(pieces)


def standard_json(text: bytes, *, longest: int, most_steps: int, deepest: int) -> bytes:
    """Return the same value in standard JSON, members that are null left out.

    ProtocolError says what is wrong and where, or which limit does not hold; a step is a value, a key or a comma.
    """
    if len(text) > longest:
        raise ProtocolError(f"{len(text)} bytes that are no standard JSON, the limit of the dialect is {longest}")
    return _Scanner(text.decode("utf-8", "replace"), most_steps, deepest).whole().encode()


class _Scanner:
    """One pass over one text. Recursive, so `deepest` bounds the stack as well."""

    def __init__(self, text: str, most_steps: int, deepest: int) -> None:
        self._text = text
        self._most_steps = most_steps
        self._deepest = deepest
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
        if self._steps > self._most_steps:
            raise self._fault(f"more than {self._most_steps} values, keys and commas")

    def _value(self, depth: int) -> str:
        self._step()
        char = self._next()
        if char in ("{", "["):
            if depth >= self._deepest:
                raise self._fault(f"nested deeper than {self._deepest}")
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
