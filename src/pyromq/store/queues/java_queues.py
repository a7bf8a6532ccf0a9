"""Two kinds of queue that Java's brokers may leave and that we never write.

Extension files (enableConsumeQueueExt): a queue entry holds an address in `consumequeue_ext/` instead of the tag's
hash, and would match no tag. What it should hold is in the log, so opening writes such entries anew (recovery.py) and
then removes the extensions: nothing leads to them any more. Java opens the result, with the setting on or off.

LMQ queues, whose entries lead to records of other topics: found, so that opening can refuse them. Their names begin
with %LMQ%, but a topic may be called so as well: what counts is whose records the entries lead to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ... import logs
from ...protocol.record import RecordError, decode_record
from ..files.disk import Disk, DiskError, read_range, read_whole, remove_tree
from ..files.file_sequence import parse_segment_name, segment_name
from ..layout import COMMIT_LOG, EXTENSIONS, FILLER_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES, QUEUES

log = logs.get("pyromq.store")

_LARGEST_ADDRESS = -(1 << 31) - 1  # tag hashes have 32 bits, so no hash is so small; delivery times are positive


def has_extensions(disk: Disk) -> bool:
    return disk.is_folder(EXTENSIONS) and bool(disk.list(EXTENSIONS))


def is_address(tag_code: int) -> bool:
    """Return whether the tag code of a queue entry is an address in the extension files."""
    return tag_code <= _LARGEST_ADDRESS


def drop_extensions(disk: Disk) -> None:
    """Remove the extension files, after the queues were written again and synced."""
    if has_extensions(disk):
        remove_tree(disk, EXTENSIONS)
        disk.sync_folder()
        log.warning("extension files of consume queues are gone: the queues have tag hashes again", folder=EXTENSIONS)


_PREFIX = "%LMQ%"
_TRIES = 1000  # the newest entries may lead to records that are torn


def find_light_queue(disk: Disk) -> str | None:
    """Return the folder of a topic that is filled from others; None if there is none."""
    bases = [base for name in disk.list(COMMIT_LOG) if (base := parse_segment_name(name)) is not None]
    for topic in disk.list(QUEUES):
        if topic.startswith(_PREFIX):
            for queue in disk.list(f"{QUEUES}/{topic}"):
                found = _topic_of_records(disk, bases, f"{QUEUES}/{topic}/{queue}")
                if found not in (None, topic):
                    return f"{QUEUES}/{topic}"
    return None


def _topic_of_records(disk: Disk, bases: list[int], folder: str) -> str | None:
    for tried, (position, size) in enumerate(_newest_entries(disk, folder)):
        place = bisect_right(bases, position) - 1
        if tried >= _TRIES or place < 0:
            return None
        try:
            raw = read_range(disk, f"{COMMIT_LOG}/{segment_name(bases[place])}", position - bases[place], size)
            return decode_record(raw).topic
        except (DiskError, RecordError):
            continue
    return None


def _newest_entries(disk: Disk, folder: str) -> Iterator[tuple[int, int]]:
    for name in reversed(disk.list(folder)):
        data = read_whole(disk, f"{folder}/{name}")
        whole = len(data) - len(data) % QUEUE_ENTRY_BYTES
        for at in range(whole - QUEUE_ENTRY_BYTES, -1, -QUEUE_ENTRY_BYTES):
            position, size, _ = QUEUE_ENTRY.unpack_from(data, at)
            if 0 < size < FILLER_SIZE:
                yield position, size
