"""Whether a replica may have lost what it acknowledged: a power cut takes what was not synced.

The note is on disk before the first acknowledgement of a start, and says with which boot of the system that was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from ...errors import ProtocolError


@dataclass(frozen=True, slots=True)
class BootNote:
    """`boot` is the system's boot id. `acks_synced`: nothing was acknowledged before it was synced."""

    boot: str
    acks_synced: bool
    is_amnesiac: bool = False
    was_stopped: bool = False  # cleanly, with everything synced

    def stopped(self) -> BootNote:
        """Return the note of a clean stop."""
        return replace(self, was_stopped=True)

    def caught_up(self) -> BootNote:
        """Return the note of a replica that has all that its master had when it joined, or that leads."""
        return replace(self, is_amnesiac=False)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def note_at_start(last: BootNote | None, boot: str, *, acks_synced: bool) -> BootNote:
    """Return the note of this start, by the one of the last; None: there was none, so nothing was acknowledged.

    A killed process loses nothing: the page cache outlives it. Another boot without a clean stop may have."""
    lost = last is not None and not last.was_stopped and last.boot != boot and not last.acks_synced
    return BootNote(boot, acks_synced, is_amnesiac=lost or (last is not None and last.is_amnesiac))


def decode_note(content: bytes) -> BootNote:
    """Return the note. Raises ProtocolError: then the replica has to be taken as one that lost its end."""
    try:
        return msgspec.json.decode(content, type=BootNote)
    except msgspec.DecodeError as fault:
        raise ProtocolError(f"the note of the last start cannot be read: {fault}") from None
