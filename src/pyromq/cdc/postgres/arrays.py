"""PostgreSQL's text of an array as a list, lists in lists where it has several dimensions. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..changes import CaptureError

_PARTS = {  # by the sign between elements: `;` of boxes alone
    sign: re.compile(rf'"((?:[^"\\]|\\.)*)"|([{{}}{sign}])|([^{{}}{sign}"]+)', re.DOTALL) for sign in (",", ";")
}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def array_reader(read: Callable[[str], object], sign: str) -> Callable[[str], object]:
    """Return how an array is read whose elements are read by `read`."""

    def read_array(text: str) -> object:
        if text.startswith("["):  # bounds other than 1: a list could not keep them
            return text
        if '"' not in text and "{" not in text[1:]:
            inner = text[1:-1]
            return [None if part == "NULL" else read(part) for part in inner.split(sign)] if inner else []
        parts = _PARTS[sign].finditer(text)
        if next(parts)[2] != "{":
            raise CaptureError(f"PostgreSQL wrote {text[:40]!r} for an array")
        return _list(parts, read, text)

    return read_array


def _list(parts: Iterator[re.Match[str]], read: Callable[[str], object], text: str) -> list[object]:
    found: list[object] = []
    for part in parts:
        if part[1] is not None:
            found.append(read(_ESCAPED.sub(r"\1", part[1])))
        elif part[2] == "{":
            found.append(_list(parts, read, text))
        elif part[2] == "}":
            return found
        elif part[3] is not None:
            found.append(None if part[3] == "NULL" else read(part[3]))
    raise CaptureError(f"PostgreSQL wrote {text[:40]!r} for an array, which does not end")
