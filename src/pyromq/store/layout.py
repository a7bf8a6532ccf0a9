"""Where things are in a store folder, and the layouts of queue entries. Java's names; ours are below pyromq/."""

from __future__ import annotations

import shlex
import struct
from pathlib import Path
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


def how_to_link(inside: Path, elsewhere: Path) -> str:
    """Return what to type so that a store's folder `inside` is the one `elsewhere`, for how both stand now."""
    goal, name = shlex.quote(str(elsewhere.absolute())), shlex.quote(str(inside.absolute()))
    if inside.is_symlink():
        return f"{inside} is a link to {inside.resolve()} already: name that, or link it anew: ln -sfn {goal} {name}"
    if not inside.is_dir():
        store = shlex.quote(str(inside.parent.absolute()))
        return f"to have it on another disk, link it: mkdir -p {goal} {store} && ln -s {goal} {name}"
    if not _has_files(inside):
        return f"to have it on another disk, link it: mkdir -p {goal} && rmdir {name} && ln -s {goal} {name}"
    if _has_files(elsewhere):
        return f"both have files: move away those that this store shall not have, then link {inside} to {elsewhere}"
    moved = f"mkdir -p {goal} && mv {name}/* {goal} && rmdir {name} && ln -s {goal} {name}"
    return f"it has files already; to have them on another disk, move and link them while no broker runs: {moved}"


def _has_files(folder: Path) -> bool:
    """Return whether the folder has files; one that cannot be read may have some."""
    try:
        return any(folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


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
