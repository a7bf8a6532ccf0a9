"""The note of a replica's last start on its disk: by it the next start knows whether records may have gone."""

from __future__ import annotations

from ...store.files.disk import Disk, make_folder_durably, read_if_there, replace_durably
from ..election.amnesia import BootNote, decode_note, note_at_start

NOTE_FILE = "pyromq/boot.json"


def begin_boot_note(disk: Disk, boot: str, *, acks_synced: bool) -> BootNote:
    """Return the note of this start, saved durably. Raises ProtocolError for one that cannot be read."""
    content = read_if_there(disk, NOTE_FILE)
    last = None if content is None else decode_note(content)
    note = note_at_start(last, boot, acks_synced=acks_synced)
    make_folder_durably(disk, "pyromq")
    save_boot_note(disk, note)
    return note


def save_boot_note(disk: Disk, note: BootNote) -> None:
    """Save the note durably."""
    replace_durably(disk, NOTE_FILE, note.encode())
