"""What a clean stop left: which queues, index files and tables there were, and the state of each queue.

Opening compares, so that a missing file is noticed: without it a queue folder that someone removed would look like a
queue that never was, and its offsets would begin at 0 again. A queue whose files bear the stamps that are noted here is
not read before somebody uses it (queues/queue_table.py). Kept in pyromq/, which Java does not know; it counts only
while the checkpoint is the one that we left.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from ..files.disk import Disk, FileMissing, read_whole, replace_durably
from ..queues.entry_log import SavedQueueState
from ..queues.queue import StoredQueue
from .checkpoint import Checkpoint
from .derived_files import DerivedListState

CATALOGUE_FILE = "pyromq/catalogue"

_CRC = b'{"crc":"'  # stands first in the file, over all that follows; older catalogues have none
_CRC_BYTES = len(_CRC) + len(b'12345678",')


class KnownQueue(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A queue, the offset behind its last message, and the last entry for a record."""

    topic: str
    queue_id: int
    next_offset: int
    last: tuple[int, ...] = ()  # position, size, tag code; none: not known
    state: SavedQueueState | None = None  # None: look at its files

    def fits(self, queue: StoredQueue) -> bool:
        """Return whether the queue has exactly these entries, and none of the oldest is missing.

        Too many entries are as wrong as too few: something else wrote behind the last one."""
        lacks_oldest = self.state is not None and queue.min_offset > self.state.min_offset
        return (
            queue.next_offset == self.next_offset
            and not lacks_oldest
            and (not self.last or self.last == last_entry_of(queue))
        )


def last_entry_of(queue: StoredQueue) -> tuple[int, ...]:
    entry = queue.last_entry()
    return () if entry is None else (entry.position, entry.size, entry.tag_code)


def encode_queues(queues: Sequence[KnownQueue]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(queues))


class KnownIndexFile(msgspec.Struct, array_like=True, frozen=True):
    """An index file and the newest record in it."""

    name: str
    end_position: int


class Catalogue(msgspec.Struct, frozen=True):
    """The files of a store beside its log at one moment."""

    checkpoint: bytes
    sizes: dict[str, int]  # by Java key: what the files were written with
    queues: msgspec.Raw  # a list of KnownQueue, which few of those who read a catalogue want
    index_files: list[KnownIndexFile] | None  # None: there is no index by configuration
    tables: list[str] = []  # empty in older ones; these count after a kill too: nobody removes a table
    folders: dict[str, int] = {}  # stamps of the folders of topics
    log_start: int = -1  # the queues' minimums are those of a log that starts here
    derived: DerivedListState = DerivedListState()

    def known_queues(self) -> list[KnownQueue]:
        """Decode the queues, anew at each call. DecodeError if the list is broken."""
        return msgspec.json.decode(self.queues, type=list[KnownQueue])

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Return whether nobody else wrote to the store since."""
        return self.checkpoint == checkpoint.pack()


def read_catalogue(disk: Disk) -> Catalogue | None:
    """Return the catalogue; None if there is none or it cannot be read."""
    try:
        content = read_whole(disk, CATALOGUE_FILE)
        has_checksum = content.startswith(_CRC)
        if has_checksum:
            checksum, content = content[len(_CRC) : len(_CRC) + 8], b"{" + content[_CRC_BYTES:]
            if checksum != b"%08x" % zlib.crc32(content):
                return None
        catalogue = msgspec.json.decode(content, type=Catalogue)
        if not has_checksum:
            catalogue.known_queues()  # raises DecodeError here if the list is broken
        return catalogue
    except (FileMissing, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def write_catalogue(disk: Disk, catalogue: Catalogue) -> None:
    content = msgspec.json.encode(catalogue)
    replace_durably(disk, CATALOGUE_FILE, b'%s%08x",%s' % (_CRC, zlib.crc32(content), content[1:]))
