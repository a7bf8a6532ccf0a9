"""Half messages that were put a moment ago, so that ending one reads nothing: most are ended within milliseconds.

`Intake` tells of each that it stored, `end.py` takes it. The log has them all; what is not here is read there.
"""

from __future__ import annotations

from ...protocol.record import Record

MOST_BYTES = 8 << 20  # of bodies and properties
_OVERHEAD_BYTES = 512  # of one, beside those


class RecentHalves:
    """By position in the log, the oldest go first. Event loop only."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._records: dict[int, Record] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def stored(self, record: Record) -> None:
        """Keep the record itself: it knows its place, and nobody changes it any more."""
        self._records[record.physical_offset] = record
        self._bytes += _size(record)
        while self._bytes > self._most_bytes:
            self.take(next(iter(self._records)))

    def take(self, position: int) -> Record | None:
        """Return the record, once: who ends it again reads the log."""
        record = self._records.pop(position, None)
        if record is not None:
            self._bytes -= _size(record)
        return record


def _size(record: Record) -> int:
    return len(record.body) + len(record.properties) + _OVERHEAD_BYTES
