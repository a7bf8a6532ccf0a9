"""Header fields as text: checked as RFC 9113, 8.2 and 8.3, says, and joined where a name is repeated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_NAME = re.compile(rb":?[a-z0-9!#$%&'*+.^_`|~-]+")
_BAD_VALUE = re.compile(rb"[\0\r\n]|^[ \t]|[ \t]$")
_OF_CONNECTIONS = frozenset(("connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"))
_OF_REQUESTS = frozenset((":method", ":scheme", ":path", ":authority"))
_NEEDED = (":method", ":scheme", ":path")
_SHORT = 128  # bytes of fields that are worth remembering


class MalformedFields(ValueError):
    """Fields that no peer may send: the stream is reset."""


def _text(name: bytes, value: bytes) -> tuple[str, str]:
    if _NAME.fullmatch(name) is None:
        raise MalformedFields(f"the field name {name[:64]!r}")
    if _BAD_VALUE.search(value) is not None:
        raise MalformedFields(f"the value of the field {name[:64]!r}")
    word, text = name.decode("ascii"), value.decode("utf-8", "replace")
    if word in _OF_CONNECTIONS or (word == "te" and text != "trailers"):
        raise MalformedFields(f"the field {word}: {text[:64]}")
    return word, text


_remembered = lru_cache(4096)(_text)


def read_request(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the fields of a request, pseudo-headers too. MalformedFields says what is wrong with them."""
    found = _read(fields, _OF_REQUESTS)
    for name in _NEEDED:
        if not found.get(name):
            raise MalformedFields(f"a request without {name}")
    return found


def read_response(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the fields of an answer, `:status` too. MalformedFields says what is wrong with them."""
    found = _read(fields, (":status",))
    if ":status" not in found:
        raise MalformedFields("an answer without :status")
    return found


def read_trailers(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the fields behind the data. MalformedFields says what is wrong with them."""
    return _read(fields, ())


def _read(fields: Iterable[tuple[bytes, bytes]], pseudo: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    is_head = True
    for name, value in fields:
        word, text = _remembered(name, value) if len(value) <= _SHORT else _text(name, value)
        if word[0] == ":":
            if not is_head or word not in pseudo or word in found:
                raise MalformedFields(f"the pseudo-header {word}, where it may not be")
            found[word] = text
            continue
        is_head = False
        found[word] = f"{found[word]},{text}" if word in found else text
    return found
