"""What recovery cuts off the end of a log is copied first: a person may want to see it.

Below pyromq/cut-off, one file a cut, named by the position where it began. Nobody reads it again; it may be removed.
"""

from __future__ import annotations

from ... import logs
from ..files.disk import Disk, DiskError, replace_durably
from ..files.file_sequence import FileSequence

log = logs.get("pyromq.store")

CUT_OFF_FOLDER = "pyromq/cut-off"
_PIECE = 1 << 20
_MOST = 64 << 20


def copy_truncated(disk: Disk, sequence: FileSequence, position: int) -> str | None:
    """Copy the bytes from a position on, up to the first piece that is all zero. The copy's name; None if all is zero.

    A copy that cannot be made (a full disk) is no reason not to open the store.
    """
    kept = bytearray()
    try:
        while len(kept) < _MOST and sequence.has(position + len(kept)):
            piece = sequence.read(position + len(kept), _PIECE)
            if not piece.strip(b"\0"):
                break
            kept += piece
        content = bytes(kept).rstrip(b"\0")
        if not content:
            return None
        name = f"{CUT_OFF_FOLDER}/{position:020d}"
        replace_durably(disk, name, content)
    except DiskError as fault:
        log.warning("what is cut off the log could not be kept aside", position=position, why=str(fault))
        return None
    log.warning("the log's end is cut off, a copy is kept", position=position, bytes=len(content), copy=name)
    return name
