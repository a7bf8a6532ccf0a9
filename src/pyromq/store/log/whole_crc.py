"""Which part of the log was written by us with a whole-record CRC, so that a record that lost its CRC is noticed.

A record's own CRC stands in its last property. If just that was lost (a sector of zeroes, a flipped bit in its name),
the record looks like one that never had any. `pyromq/whole-crc` says where every record has one: closed ranges of
earlier lives, and an open one from where this life began to write. Recovery, verify and reads ask `lacks`.

Java does not keep this file. If someone else wrote since, the open range does not count, and the closed ones count only
while the last record of the newest stands as we left it, with its queue entry: whoever cut anything off our part of the
log has cut off that record too.

The file is JSON behind its checksum (`sealed`). One that cannot be read says nothing: less is noticed then.
"""

from __future__ import annotations

import msgspec

from ...protocol.record import BLANK, BLANK_BYTES, Record, RecordError, decode_record, whole_record_crc
from ..config import StoreConfig
from ..files.disk import Disk, DiskError, read_if_there, read_range, read_whole, replace_durably, sealed, unsealed
from ..files.file_sequence import segment_name
from ..layout import BATCH_ENTRY_BYTES, BATCH_QUEUES, COMMIT_LOG, ENTRY_HEAD, QUEUE_ENTRY_BYTES, QUEUES

WHOLE_CRC_FILE = "pyromq/whole-crc"


class CrcRange(msgspec.Struct, array_like=True, frozen=True):
    """Records from `start` to `end`; `last` is where the last of them starts."""

    start: int
    end: int
    last: int


class CrcRanges(msgspec.Struct, frozen=True):
    """Where a record without its CRC is damaged."""

    closed: tuple[CrcRange, ...] = ()
    open_from: int | None = None

    def covers(self, position: int) -> bool:
        if self.open_from is not None and position >= self.open_from:
            return True
        return any(one.start <= position < one.end for one in self.closed)

    def lacks(self, position: int, properties: bytes) -> bool:
        """Return whether the record there has lost its CRC. `properties`: at least their last bytes."""
        return self.covers(position) and whole_record_crc(properties) is None

    def closed_at(self, end: int, last: int) -> CrcRanges:
        """Return the ranges of earlier lives, now that the log is known to end there; nothing reaches beyond."""
        ranges = [one for one in self.closed if one.start < end]
        if ranges and ranges[-1].end > end:
            ranges[-1] = CrcRange(ranges[-1].start, end, last)
        if self.open_from is not None and self.open_from < end:
            joins = bool(ranges) and ranges[-1].end == self.open_from
            start = ranges.pop().start if joins else self.open_from
            ranges.append(CrcRange(start, end, last))
        return CrcRanges(tuple(ranges))

    def opened_at(self, end: int, log_start: int) -> CrcRanges:
        """Return the ranges with an open one for the appends that begin here; what has expired is forgotten."""
        return CrcRanges(tuple(one for one in self.closed if one.end > log_start), end)


NO_RANGES = CrcRanges()


def read_ranges(disk: Disk) -> CrcRanges:
    return _found(disk) or NO_RANGES


def are_ranges_readable(disk: Disk) -> bool:
    """Return whether the file can be read; True as well where there is none."""
    return not disk.exists(WHOLE_CRC_FILE) or _found(disk) is not None


def _found(disk: Disk) -> CrcRanges | None:
    text = unsealed(read_if_there(disk, WHOLE_CRC_FILE) or b"")
    try:
        return None if text is None else msgspec.json.decode(text, type=CrcRanges)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def save_ranges(disk: Disk, ranges: CrcRanges) -> None:
    """Save the ranges durably; nothing is written if the file says so already."""
    if read_ranges(disk) == ranges:
        return
    replace_durably(disk, WHOLE_CRC_FILE, sealed(msgspec.json.encode(ranges)))


def ranges_that_count(disk: Disk, config: StoreConfig, ours: bool) -> CrcRanges:
    """Return the ranges that may be relied on. `ours`: nobody else wrote since we did. Changes nothing."""
    ranges = read_ranges(disk)
    if ours or not ranges.closed:
        return ranges if ours else NO_RANGES
    return CrcRanges(ranges.closed) if _stands(disk, config, ranges.closed[-1].last) else NO_RANGES


def _stands(disk: Disk, config: StoreConfig, position: int) -> bool:
    """Return whether the record there is whole, has its CRC, and its queue leads to it."""
    inside = position % config.commit_log_file_bytes
    try:
        name = f"{COMMIT_LOG}/{segment_name(position - inside)}"
        size = BLANK.unpack(_read(disk, name, inside, BLANK_BYTES))[0]
        if size > config.commit_log_file_bytes - inside:
            return False
        record = decode_record(_read(disk, name, inside, size))
        if record.physical_offset != position or whole_record_crc(record.properties) is None:
            return False
        return _has_entry(disk, config, record)
    except (DiskError, RecordError):
        return False


def _has_entry(disk: Disk, config: StoreConfig, record: Record) -> bool:
    entry = ENTRY_HEAD.pack(record.physical_offset, record.size)
    folder = f"{BATCH_QUEUES}/{record.topic}/{record.queue_id}"
    if disk.is_folder(folder):  # its entries are found by looking
        contents = (read_whole(disk, f"{folder}/{name}") for name in reversed(disk.list(folder)))
        return any(
            content[at : at + len(entry)] == entry
            for content in contents
            for at in range(0, len(content), BATCH_ENTRY_BYTES)
        )
    at = record.queue_offset * QUEUE_ENTRY_BYTES
    inside = at % config.queue_file_bytes
    name = f"{QUEUES}/{record.topic}/{record.queue_id}/{segment_name(at - inside)}"
    return _read(disk, name, inside, len(entry)) == entry


def _read(disk: Disk, name: str, offset: int, length: int) -> bytes:
    data = read_range(disk, name, offset, length)
    if len(data) < length:
        raise DiskError(f"{name} ends at {offset + len(data)}")
    return data
