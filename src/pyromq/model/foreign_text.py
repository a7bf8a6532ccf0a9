"""Text that came from elsewhere, made harmless for where it goes: terminals, logs, tables, pages, names of files.

Topics, groups, client ids, addresses, keys, properties, bodies and remarks are written by whoever can connect. They are
kept as they came and escaped once, where they leave: `cli/terminal/printing.py`, `mqadmin/main.py`, `logs.py` and the
pages of pipelines call this, commands never have to. Pure, and light: it is loaded with every command.
"""

from __future__ import annotations

import re

# What moves a cursor, ends a line, turns the direction of writing or has no width; half of a surrogate pair cannot even
# be written. Line ends (CRLF too) and tabs are not among them: `one_line` takes those too.
_HIDDEN = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(rf"[{_HIDDEN}]|\r(?!\n)")
_UNSEEN_OR_BREAK = re.compile(rf"[{_HIDDEN}\n\t\r]")
_SHORT = {"\n": "\\n", "\t": "\\t"}

_PLAIN_WORD = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})

_LONGEST_NAME = 200  # bytes, of the 255 that file systems take: room for what a caller puts behind it
_KEPT_OF_LONG = 150
# In a name of a file these stay. A percent sign stays where it could not be taken for an escape, as in %RETRY%group.
_NOT_IN_NAMES = re.compile(rb"[^A-Za-z0-9@#:._+=,%-]|%(?=[0-9A-Fa-f]{2})|^[.-]")


def visible(text: str) -> str:
    """Return the text with everything unseen as `\\x1b` or `\\u202e`; line ends and tabs stay.

    JSON stays JSON of the same value: what its writers leave unescaped is written here as JSON escapes it.
    """
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_escape, text)


def one_line(text: str) -> str:
    """Return the text as one line without tabs, for a cell or a field: it can neither end its line nor its column."""
    return text if text.isprintable() and text.isascii() else _UNSEEN_OR_BREAK.sub(_escape, text)


def bounded_line(text: str, most: int) -> str:
    """Return the text as one line of at most so many bytes in UTF-8; dots stand for what was cut off."""
    line = one_line(text[: most + 1]).strip()
    raw = line.encode()
    return line if len(raw) <= most else raw[: most - 3].decode(errors="ignore") + "..."


def in_html(text: str) -> str:
    """Return the text for a page, between tags or in a quoted attribute."""
    return one_line(text).translate(_HTML)


def shell_word(text: str) -> str:
    """Return the text as one word of a command for people to copy: names of topics and brokers may hold `|` or `;`."""
    return text if _PLAIN_WORD.fullmatch(text) else "'" + one_line(text).replace("'", "'\"'\"'") + "'"


def file_name(text: str) -> str:
    """Return a name for a file in a folder of the caller's: no separator, never hidden, at most 200 bytes.

    Ids as honest clients make them stay as they are; other bytes are percent-escaped, so two texts never share a name.
    """
    escaped = _NOT_IN_NAMES.sub(_percent, text.encode("utf-8", "surrogatepass")).decode("ascii")
    if len(escaped) > _LONGEST_NAME:
        import hashlib  # not at the top: it brings OpenSSL with it, and ids are short

        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{escaped[:_KEPT_OF_LONG]}~{digest[:32]}"
    return escaped or "~"


def _escape(found: re.Match[str]) -> str:
    one = found[0]
    if one in _SHORT:
        return _SHORT[one]
    code = ord(one)
    if code < 0x20:
        return f"\\x{code:02x}"  # in JSON these are escaped already
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


def _percent(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]
