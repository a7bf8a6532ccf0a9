"""Text behind its own CRC32, so that a line or a file that is torn or damaged is not taken for a whole one.

| CRC32 of the text, 8 hex digits | space | text |      used by the small files below pyromq/, which Java does not know
"""

from __future__ import annotations

import zlib


def sealed(text: bytes) -> bytes:
    return b"%08x %s" % (zlib.crc32(text), text)


def unsealed(data: bytes) -> bytes | None:
    """Return the text of `sealed`; None if it is not whole."""
    checksum, _, text = data.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else None
