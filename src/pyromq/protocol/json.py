"""JSON in fastjson's dialect, which every Java peer reads and writes. Read here, written by `bodies/`.

Reading tries msgspec first. What that refuses is turned into standard JSON and tried again: quickly where it is not
UTF-8, has null for what is absent, or only the keys of maps are odd, as Java's own programs write them; else by the
scanner of `fastjson.py`, which knows the whole dialect. Nothing is begun before it is known to be small enough: a text
costs a few milliseconds at most. No sockets, no types: a value that is well-formed but of the wrong type is for the
caller to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..errors import ProtocolError

T = TypeVar("T")

_ANY = msgspec.json.Decoder()
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Dialect(Enum):
    """How map keys that are no strings are written."""

    JAVA = "java"  # {0:"a"} and {{"queueId":0}:1}, as Java's own servers answer
    STANDARD = "standard"  # {"0":"a"} and {"{\"queueId\":0}":1}, for `acceptStandardJsonOnly` and every other reader


class JsonLimits(NamedTuple):
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
    from .fastjson import quote_keys, standard_json  # not at the top: see `load_dialect`

    with suppress(*_REFUSALS):
        return decode(text[:odd_from] + quote_keys(text[odd_from:], limits.quoted_keys))
    scanned = standard_json(text, longest=limits.scanned_bytes, most_steps=limits.scanned_steps, deepest=limits.depth)
    return decode(scanned)


def load_dialect() -> None:
    """Import `fastjson.py` now, as daemons do: short of descriptors or memory, they could not with the first odd text.

    Others import it with that text: its patterns take 3 ms, and few need them.
    """
    import_module(f"{__package__}.fastjson")


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
    found = re.search(r"\(byte ([0-9]{1,12})\)", str(refusal))
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
