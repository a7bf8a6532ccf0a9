"""What a clean stop left: which queues, index files and tables there were. Opening compares, so that a missing file is
noticed.

Without it a queue folder that someone removed would look like a queue that never was, and its offsets would begin at 0
again. Kept in pyromq/, which Java does not know; it counts only while the checkpoint is the one that we left.
"""

from __future__ import annotations

import msgspec

from .checkpoint import Checkpoint
from .disk import Disk, FileMissing, make_folder_durably, read_whole, replace_durably
from .queue import MessageQueue

CATALOGUE_FILE = "pyromq/catalogue"


class KnownQueue(msgspec.Struct, array_like=True, frozen=True):
    """A queue, the offset behind its last message, and where the last entry for a record leads."""

    topic: str
    queue_id: int
    next_offset: int
    last: tuple[int, ...] = ()  # position, size, tag code; none: not known

    def fits(self, queue: MessageQueue) -> bool:
        """Too many entries are as wrong as too few: something else wrote behind the last one."""
        return queue.next_offset == self.next_offset and (not self.last or self.last == last_of(queue))


def last_of(queue: MessageQueue) -> tuple[int, ...]:
    entry = queue.last_entry()
    return () if entry is None else (entry.position, entry.size, entry.tag_code)


class KnownIndexFile(msgspec.Struct, array_like=True, frozen=True):
    """An index file and the newest record in it."""

    name: str
    end_position: int


class Catalogue(msgspec.Struct, frozen=True):
    """The files of a store beside its log at one moment."""

    checkpoint: bytes
    sizes: dict[str, int]  # by Java key: what the files were written with
    queues: list[KnownQueue]
    index_files: list[KnownIndexFile] | None  # None: there is no index by configuration
    tables: list[str] = []  # empty in older ones; these count after a kill too: nobody removes a table

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Whether nobody else wrote to the store since."""
        return self.checkpoint == checkpoint.pack()


def read_catalogue(disk: Disk) -> Catalogue | None:
    """None if there is none or it cannot be read."""
    try:
        return msgspec.json.decode(read_whole(disk, CATALOGUE_FILE), type=Catalogue)
    except (FileMissing, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_catalogue(disk: Disk, catalogue: Catalogue) -> None:
    make_folder_durably(disk, CATALOGUE_FILE.rpartition("/")[0])
    replace_durably(disk, CATALOGUE_FILE, msgspec.json.encode(catalogue))
