"""Which log files went when, so that whoever asks for a message that is gone is told so: `pyromq/expired.json`.

Retention calls `note` before a file goes, after everything that is to stay was carried forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...model.ids import parse_offset_message_id, parse_unique_id
from ...store.message_store import MessageStore
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import numbered, section

SECTION = "files"
REMEMBERED = 1_000


class _Gone(NamedTuple):
    end: int
    first_ms: int  # store times of its first record and of the first behind it
    last_ms: int
    at_ms: int


@dataclass(slots=True, eq=False, repr=False)
class Expired:
    """Event loop only. `changed` is called when there is something to write."""

    table: JsonTable
    store: MessageStore
    now_ms: Callable[[], int]
    changed: Callable[[], None]
    _files: dict[int, _Gone] = field(init=False)

    def __post_init__(self) -> None:
        saved = section(self.table.load(), SECTION)
        self._files = numbered(_Gone, saved, f"{SECTION} in {self.table.name}")

    async def note(self, start: int, end: int) -> None:
        now, time_at = self.now_ms(), self.store.commit_log.store_time_at
        # The oldest pages are the least likely to be in memory, and the event loop must not wait for them.
        first, last = await self.store.ask(lambda: (time_at(start), time_at(end)))
        gone = _Gone(end, first or 0, now if last is None else last, now)
        self._files[start] = gone
        self.table.put(SECTION, str(start), list(gone))
        for oldest in sorted(self._files)[:-REMEMBERED]:
            del self._files[oldest]
            self.table.drop(SECTION, str(oldest))
        self.changed()

    def at(self, position: int) -> int | None:
        """Return when the file that held this place went; None if it is not known."""
        found = (gone.at_ms for start, gone in self._files.items() if start <= position < gone.end)
        return next(found, None)

    def of(self, wanted: str, now_ms: int, log_start: int) -> int | None:
        """Return when a message with this id went: by the place in an offset id, or by the time in a client's.

        0: it is gone, but nobody knows since when. None: there is no sign that it ever was.
        """
        try:
            position = parse_offset_message_id(wanted).physical_offset
            born = parse_unique_id(wanted).born_near(now_ms)
        except ValueError:
            return None
        if 0 <= position < log_start:
            return self.at(position) or 0
        found = (gone.at_ms for gone in self._files.values() if gone.first_ms <= born < gone.last_ms)
        return next(found, None)
