"""Queue offsets that were given out once stay reserved, also where the record, or the queue that knew it, is damaged.

A queue that is rebuilt from the log ends behind the last record that can still be read. If the one behind it is
damaged, its offset would be given out a second time, and groups that have committed it would never see the message that
gets it. So whoever rebuilds queues writes down how far they reached: the catalogue of a clean stop, or `store rebuild`
by a file of its own, which is there until the rebuilt queues are on the medium.
"""

from __future__ import annotations

import msgspec

from ..config import StoreConfig
from ..files.disk import Disk, read_if_there, replace_durably
from ..files.open_files import OpenFiles
from ..files.unsynced import UnsyncedFiles
from ..recovery.catalogue import Catalogue, KnownQueue
from .queue_table import QueueTable

RESERVED_FILE = "pyromq/taken"


def queue_ends(disk: Disk, config: StoreConfig, catalogue: Catalogue | None, end: int) -> list[KnownQueue]:
    """Return how far each queue reaches in the log up to its `end`: by the catalogue, else by the queues."""
    if catalogue is not None:
        return catalogue.known_queues()
    files = OpenFiles(disk, 64)
    table = QueueTable(disk, files, UnsyncedFiles(), config)
    known = []
    for queue, _ in table.load():
        ahead = queue.count_from(end)  # entries for what the log does not have
        last = queue.last_entry()
        if last is not None and last.position >= 0 and queue.next_offset > ahead:
            known.append(KnownQueue(queue.topic, queue.queue_id, queue.next_offset - ahead))
    files.close()
    return known


def write_reserved(disk: Disk, queues: list[KnownQueue]) -> None:
    replace_durably(disk, RESERVED_FILE, msgspec.json.encode(queues))


def read_reserved(disk: Disk) -> list[KnownQueue]:
    try:
        return msgspec.json.decode(read_if_there(disk, RESERVED_FILE) or b"[]", type=list[KnownQueue])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
