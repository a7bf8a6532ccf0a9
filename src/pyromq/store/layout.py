"""Where things are in a store folder, and the layouts of queue entries. Java's names; ours are below pyromq/."""

from __future__ import annotations

import struct
from typing import NamedTuple

COMMIT_LOG = "commitlog"
QUEUES = "consumequeue"
BATCH_QUEUES = "batchconsumequeue"
INDEX = "index"
EXTENSIONS = "consumequeue_ext"

# | position in the commit log 8 | record size 4 | tag code 8 |      the entry's number is the queue offset
QUEUE_ENTRY = struct.Struct(">qiq")
QUEUE_ENTRY_BYTES = QUEUE_ENTRY.size

# | position 8 | size 4 | tag code 8 | store time 8 | base offset 8 | messages 2 | compacted 4 (-1) | reserved 4 (0) |
BATCH_ENTRY = struct.Struct(">qiqqqhii")
BATCH_ENTRY_BYTES = BATCH_ENTRY.size

# Both begin alike; a size of 0 was never written.
ENTRY_HEAD = struct.Struct(">qi")

FILLER_SIZE = 0x7FFFFFFF
FILLER = QUEUE_ENTRY.pack(0, FILLER_SIZE, 0)  # stands for no record: the head of a queue that starts above 0, or a gap


class QueueEntry(NamedTuple):
    """One record as its queue knows it."""

    queue_offset: int
    position: int
    size: int
    tag_code: int
    messages: int = 1

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE
