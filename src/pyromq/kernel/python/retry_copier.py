"""Copies of messages whose invisible time is over, in the Python kernel: all are left to the broker, which makes them.

`native/pop_copies.pxi` has the class that makes them itself, byte for byte as the broker does
(`broker/pop/retry_records.py`), and leaves to the broker what is not in memory, damaged or unusual.
"""

from __future__ import annotations

from ..pops import CopiedDue, CopyHost, CopySettings
from .appender import Appender
from .pop_table import PopTable
from .state import ResidentFiles, TimeSource

MOST_POINTS = 64  # in one call


class RetryCopier:
    """Event loop only."""

    def __init__(
        self, host: CopyHost, table: PopTable, appender: Appender, records: ResidentFiles, time: TimeSource
    ) -> None:
        """Take the store's parts; the native one reads and appends with them."""
        self._table = table
        self.messages = 0  # copied since the start

    def use(self, settings: CopySettings) -> None:
        """Make copies by these settings from now on."""

    def copy_due(self, now_ms: int, most: int) -> CopiedDue:
        """Copy about `most` messages of check points that are due in one append, note these as revived, let them go.

        What is left stays in the table, and so does everything if the append fails: the broker meets the same then.
        """
        left = self._table.due(now_ms, MOST_POINTS)
        return CopiedDue((), (), 0, left, len(left) == MOST_POINTS)
