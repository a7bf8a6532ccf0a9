"""Property strings: `key 0x01 value 0x02` repeated, UTF-8, at most 32767 bytes.

Reading follows Java: pairs without a key or a value are dropped, the last pair of a key wins, a missing last 0x02 is
fine. Writing refuses what would smuggle in another pair; what was read is written back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NAME_END = "\x01"
PAIR_END = "\x02"
MAX_PROPERTIES_BYTES = 32767
_FEW = 16  # places that are looked at one by one


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode the properties. ValueError names one that cannot be written."""
    return properties_text(properties).encode("utf-8")


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the properties as headers carry them."""
    text = "".join([f"{name}{NAME_END}{value}{PAIR_END}" for name, value in properties.items()])
    if text.count(NAME_END) != len(properties) or text.count(PAIR_END) != len(properties):
        raise ValueError(f"property {_smuggler(properties)!r} holds 0x01 or 0x02, which separate properties")
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    if size > MAX_PROPERTIES_BYTES:
        raise ValueError(f"properties take {size} bytes, the limit is {MAX_PROPERTIES_BYTES}")
    return text


def rejoin_properties(properties: Mapping[str, str]) -> bytes:
    """Write back what `decode_properties` read, with whatever the broker changed in it; the caller looks at the size.

    A value may hold 0x01, as in Java: it is read as a part of the value again, and so adds no pair.
    """
    return "".join([f"{name}{NAME_END}{value}{PAIR_END}" for name, value in properties.items()]).encode("utf-8")


def _smuggler(properties: Mapping[str, str]) -> str:
    return next(n for n, v in properties.items() if any(mark in n + v for mark in (NAME_END, PAIR_END)))


def decode_properties(raw: bytes | memoryview | str) -> dict[str, str]:
    text = raw if isinstance(raw, str) else str(raw, "utf-8", "replace")
    properties: dict[str, str] = {}
    for pair in text.split(PAIR_END):
        name, _, value = pair.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """Return one value out of the bytes, without decoding the others: the append and dispatch loops live on it."""
    head = name + b"\x01"
    end = len(raw)
    for _ in range(_FEW):
        at = raw.rfind(head, 0, end)
        if at < 0:
            return None
        if at == 0 or raw[at - 1] == 2:
            start = at + len(head)
            stop = raw.find(b"\x02", start)
            value = raw[start:] if stop < 0 else raw[start:stop]
            if value:
                return value
        end = at + len(head) - 1
    return _find_among_many(raw, head)


def _find_among_many(raw: bytes, head: bytes) -> bytes | None:
    """Return the same in one pass: for thousands of names that end alike, or of pairs without a value."""
    value = None
    for found in re.finditer(b"(?:^|(?<=\x02))" + re.escape(head) + b"([^\x02]++)", raw):
        value = found[1]
    return value
