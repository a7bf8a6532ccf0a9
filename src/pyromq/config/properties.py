"""The text form of Java's `.properties` files, both ways: what `namesrv.conf` and `broker.conf` are written in.

Read by `load.py` for files and by the name server and broker for settings sent over the wire. Knows no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..errors import ConfigError

BLANK = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Entry(NamedTuple):
    """One `key=value` and the line (from 1) on which it begins."""

    key: str
    value: str
    line: int


def parse(text: str, source: str = "properties") -> list[Entry]:
    """Return every entry in order, repeated keys included. ConfigError names `source` and line of a bad escape."""
    entries = []
    for number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            entries.append(Entry(_unescape(line[:key_end]), _unescape(line[value_start:]), number))
        except ValueError as fault:
            raise ConfigError(f"{source} line {number}: {fault}") from None
    return entries


def render(pairs: Mapping[str, str]) -> str:
    """Return one line per pair, escaped so that `parse` and Java read the same pairs back."""
    return "".join(f"{_escape(key, '=: #!')}={_escape_value(value)}\n" for key, value in pairs.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments and blank ones; after an odd number of backslashes the next line is added."""
    begun, joined = 0, ""
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = natural.lstrip(BLANK)
        if not begun:
            if not line or line[0] in "#!":
                continue
            begun = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield begun, joined + line
        begun, joined = 0, ""
    if begun:
        yield begun, joined


def _split(line: str) -> tuple[int, int]:
    """Return where the key ends and the value starts: at the first bare `=`, `:` or blank, with blanks around it."""
    at = 0
    while at < len(line) and line[at] not in "=:" + BLANK:
        at += 2 if line[at] == "\\" else 1
    key_end = min(at, len(line))
    rest = line[key_end:]
    value = rest.lstrip(BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(BLANK)
    return key_end, len(line) - len(value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        char = text[at]
        if char != "\\" or at + 1 == len(text):
            out.append(char)
            at += 1
        elif text[at + 1] == "u":
            out.append(_unicode_escape(text[at + 2 : at + 6]))
            at += 6
        else:
            out.append(ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    # Java writes characters beyond the first plane as two escapes; joined here, a lone half is an error.
    try:
        return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("a \\u escape is half of a surrogate pair") from None


def _unicode_escape(digits: str) -> str:
    if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"\\u needs four hexadecimal digits, found {digits!r}")
    return chr(int(digits, 16))


def _escape(text: str, special: str) -> str:
    backwards = {char: letter for letter, char in ESCAPES.items()} | {"\\": "\\"}
    return "".join(f"\\{backwards.get(char, char)}" if char in backwards or char in special else char for char in text)


def _escape_value(text: str) -> str:
    """Escape a leading blank, which alone would be lost in a value; `=` and `#` inside one are plain."""
    escaped = _escape(text, "")
    return "\\" + escaped if escaped.startswith(" ") else escaped
