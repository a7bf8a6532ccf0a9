"""The frame that refuses what is beyond a bucket."""

from __future__ import annotations

from collections.abc import Sequence

from ....protocol.command import Command, Encoding
from ...quotas import OPAQUE, USED, WAIT, RefusalText


def refusal(text: RefusalText, command: Command, used: bytes, wait: bytes) -> bytes:
    """Return a whole frame, in the encoding that the request came in."""
    values = {USED: used, WAIT: wait, OPAQUE: b"%d" % command.opaque}
    if command.encoding is Encoding.JSON:
        header = _joined(text.json, text.json_slots, values)
        word = len(header)
    else:
        remark = _joined(text.remark, text.remark_slots, values)
        fields = b""
        if text.field:
            fields = len(text.field).to_bytes(2, "big") + text.field + len(wait).to_bytes(4, "big") + wait
        fixed = text.fixed[:5] + (command.opaque & 0xFFFFFFFF).to_bytes(4, "big") + text.fixed[9:]
        header = fixed + len(remark).to_bytes(4, "big") + remark + len(fields).to_bytes(4, "big") + fields
        word = 1 << 24 | len(header)
    return (4 + len(header)).to_bytes(4, "big") + word.to_bytes(4, "big") + header


def _joined(pieces: Sequence[bytes], slots: Sequence[int], values: dict[int, bytes]) -> bytes:
    return b"".join(piece + values[slot] for piece, slot in zip(pieces, slots, strict=False)) + pieces[-1]
