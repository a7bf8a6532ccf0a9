"""The file sizes and delay levels that a store was written with, read off its files: tools need no configuration.

A catalogue of ours says the sizes, a table of ours the levels. Whatever cannot be told from the files of others keeps
the value of the configuration handed in (RocketMQ's defaults, or the user's), except for an index that this value does
not fit: that is refused, with the keys to set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from ...errors import ConfigError
from ...model.times import parse_delay_levels
from ...model.wire_text import whole_number
from ..config import StoreConfig
from ..files.disk import Disk, read_range
from ..files.file_sequence import parse_queue_name, parse_segment_name
from ..index.index_file import ENTRY, ENTRY_BYTES, HEADER, HEADER_BYTES
from ..index.slot_table import SLOT_BYTES
from ..layout import BATCH_ENTRY_BYTES, BATCH_QUEUES, COMMIT_LOG, INDEX, QUEUE_ENTRY_BYTES, QUEUES
from ..tables.json_tables import TableDamaged, read_table
from .catalogue import read_catalogue

_ENTRIES_PER_SLOT = 4  # RocketMQ's default proportion
LEVELS_TABLE, LEVELS = "pyromq/delayLevels.json", "messageDelayLevel"
_ENOUGH = 64  # queue files to look at


def inferred_config(disk: Disk, config: StoreConfig | None = None, known: Collection[str] = ()) -> StoreConfig:
    """Return the configuration with sizes and levels as the files show them. `known`: settings right as given."""
    config = config or StoreConfig()
    if "message_delay_level" not in known:
        config = replace(config, message_delay_level=_last_levels(disk) or config.message_delay_level)
    catalogue = read_catalogue(disk)
    if catalogue is not None:
        return config.with_file_sizes(catalogue.sizes)
    log = _common_size(disk, [COMMIT_LOG], 1)
    queue = _common_size(disk, _queue_folders(disk, QUEUES), QUEUE_ENTRY_BYTES)
    batch = _common_size(disk, _queue_folders(disk, BATCH_QUEUES), BATCH_ENTRY_BYTES)
    found = replace(
        config,
        commit_log_file_bytes=log or config.commit_log_file_bytes,
        queue_file_bytes=queue or config.queue_file_bytes,
        batch_queue_file_bytes=batch or config.batch_queue_file_bytes,
    )
    return found if {"index_slots", "index_entries"} <= set(known) else _with_index_size(disk, found)


def _last_levels(disk: Disk) -> str | None:
    """Return the delay levels of the last start of a broker of ours; None where there was none."""
    try:
        levels = str(read_table(disk, LEVELS_TABLE, quiet=True).content.get(LEVELS, ""))
        parse_delay_levels(levels)
    except (TableDamaged, ConfigError):
        return None
    return levels or None


def _with_index_size(disk: Disk, config: StoreConfig) -> StoreConfig:
    """Infer the number of slots and entries, which the length alone does not say.

    RocketMQ's proportion is tried, then a full file, whose header has the number of entries; each must fit the newest
    entry of the files, which its slot leads to."""
    names = [f"{INDEX}/{name}" for name in disk.list(INDEX) if whole_number(name) is not None]
    sizes = Counter(size for name in names if (size := disk.size(name)) > HEADER_BYTES)
    if not sizes or not config.index_enabled:
        return config
    size = sizes.most_common(1)[0][0]
    rest = size - HEADER_BYTES
    if rest == config.index_slots * SLOT_BYTES + config.index_entries * ENTRY_BYTES:
        return config
    alike = [name for name in names if disk.size(name) == size]
    usual = rest // (SLOT_BYTES + ENTRY_BYTES * _ENTRIES_PER_SLOT) * _ENTRIES_PER_SLOT
    for entries in [usual, *{_next_entry(disk, name) for name in alike}]:
        slots, odd = divmod(rest - entries * ENTRY_BYTES, SLOT_BYTES)
        if not odd and slots > 0 and entries > 1 and all(_fits(disk, name, slots, entries) for name in alike):
            return replace(config, index_slots=slots, index_entries=entries)
    raise ConfigError(
        f"maxHashSlotNum = {config.index_slots}, maxIndexNum = {config.index_entries}: the index files in "
        f"{disk.root}/{INDEX} have {size} bytes, which is not what these give, and do not show what they were written "
        f"with; set both as they were, or move that folder away: it is then written again from the commit log"
    )


def _next_entry(disk: Disk, name: str) -> int:
    return int(HEADER.unpack(read_range(disk, name, 0, HEADER_BYTES))[5])


def _fits(disk: Disk, name: str, slots: int, entries: int) -> bool:
    """Return whether the slot of the newest entry's hash leads to that entry. True for an empty file."""
    newest = _next_entry(disk, name) - 1
    if newest < 1:
        return True
    at = HEADER_BYTES + slots * SLOT_BYTES + newest * ENTRY_BYTES
    if newest >= entries:
        return False
    key_hash = ENTRY.unpack(read_range(disk, name, at, ENTRY_BYTES))[0]
    slot = read_range(disk, name, HEADER_BYTES + key_hash % slots * SLOT_BYTES, SLOT_BYTES)
    return key_hash >= 0 and int.from_bytes(slot, "big") == newest


def _common_size(disk: Disk, folders: Iterable[str], entry_bytes: int) -> int:
    """Return the length that most files have, if their names fit it; 0 if there is none."""
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
        folders += [
            f"{root}/{topic}/{queue}" for queue in disk.list(f"{root}/{topic}") if parse_queue_name(queue) is not None
        ]
        if len(folders) >= _ENOUGH:
            break
    return folders
