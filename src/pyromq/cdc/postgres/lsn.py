"""Places in PostgreSQL's log: a number of 64 bits, which it writes as two hexadecimal halves. Pure."""

from __future__ import annotations

import re

from ..changes import CaptureError

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def lsn_of(text: str) -> int:
    """Return the number; 0 of no text. CaptureError if it is no place."""
    if not text:
        return 0
    found = _LSN.fullmatch(text)
    if found is None:
        raise CaptureError(f"{text!r} is no place in PostgreSQL's log: they are written as 0/16B3748")
    return int(found[1], 16) << 32 | int(found[2], 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
