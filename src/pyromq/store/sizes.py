"""The file sizes that a store was written with, read off its files, so that tools need no configuration.

Whatever cannot be told from the files keeps the value of the configuration handed in (RocketMQ's defaults, or the
user's).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from .config import StoreConfig
from .disk import Disk
from .layout import BATCH_ENTRY_BYTES, BATCH_QUEUES, COMMIT_LOG, INDEX, QUEUE_ENTRY_BYTES, QUEUES
from .segment import parse_segment_name

_INDEX_HEADER_BYTES = 40
_ENTRIES_PER_SLOT = 4  # RocketMQ's default proportion; slots take 4 bytes, entries 20
_ENOUGH = 64  # queue files to look at


def inferred_config(disk: Disk, config: StoreConfig | None = None) -> StoreConfig:
    """The configuration with sizes as the files show them."""
    config = config or StoreConfig()
    log = _common_size(disk, [COMMIT_LOG], 1)
    queue = _common_size(disk, _queue_folders(disk, QUEUES), QUEUE_ENTRY_BYTES)
    batch = _common_size(disk, _queue_folders(disk, BATCH_QUEUES), BATCH_ENTRY_BYTES)
    found = replace(
        config,
        commit_log_file_bytes=log or config.commit_log_file_bytes,
        queue_file_bytes=queue or config.queue_file_bytes,
        batch_queue_file_bytes=batch or config.batch_queue_file_bytes,
    )
    return _with_index_size(disk, found)


def _with_index_size(disk: Disk, config: StoreConfig) -> StoreConfig:
    sizes = Counter(disk.size(f"{INDEX}/{name}") for name in disk.list(INDEX) if name.isdigit())
    if not sizes:
        return config
    rest = sizes.most_common(1)[0][0] - _INDEX_HEADER_BYTES
    if rest == config.index_slots * 4 + config.index_entries * 20:
        return config
    slots, odd = divmod(rest, 4 + 20 * _ENTRIES_PER_SLOT)
    if odd or slots < 1:
        return config
    return replace(config, index_slots=slots, index_entries=slots * _ENTRIES_PER_SLOT)


def _common_size(disk: Disk, folders: Iterable[str], entry_bytes: int) -> int:
    """The length that most files have, if their names fit it; 0 if there is none."""
    sizes: Counter[int] = Counter()
    bases: list[int] = []
    for folder in folders:
        for name in disk.list(folder):
            base = parse_segment_name(name)
            if base is not None and not disk.is_folder(f"{folder}/{name}"):
                sizes[disk.size(f"{folder}/{name}")] += 1
                bases.append(base)
    for size, _ in sizes.most_common():
        if size and size % entry_bytes == 0 and all(base % size == 0 for base in bases):
            return size
    return 0


def _queue_folders(disk: Disk, root: str) -> list[str]:
    folders: list[str] = []
    for topic in disk.list(root):
        folders += [f"{root}/{topic}/{queue}" for queue in disk.list(f"{root}/{topic}") if queue.isdigit()]
        if len(folders) >= _ENOUGH:
            break
    return folders
