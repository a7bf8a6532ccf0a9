"""A search of the index for one key, newest entry first, in steps.

A key may have a hundred thousand entries, and each may lie on a cold page: so it goes on where it stopped, because it
has looked at enough for once or because a read raised NotResident. The state moves only behind a read that succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence

from .index_file import IndexFile

_ENTRIES_AT_ONCE = 1000
_RESOLUTION_MS = 999  # an entry has whole seconds: its record may be so much younger


class KeySearch:
    """Event loop only. What lies up to a second before the window may be among it: the records tell exactly.

    `found` holds positions in the log, newest first, once `step` said that it is over.
    """

    def __init__(self, files: Sequence[IndexFile], key_hash: int, begin: int, end: int, limit: int) -> None:
        self._there = files  # as the index has them now: retention may take some away meanwhile
        self._hash = key_hash
        self._begin = begin - _RESOLUTION_MS
        self._end = end
        self._limit = limit
        self._files = self._worth_reading()
        self._number: int | None = None  # entry to look at next in the last of the files; None: ask its slot
        self.found: list[int] = []

    def _worth_reading(self) -> list[IndexFile]:
        """Return files whose times meet the window, oldest first."""
        chosen: list[IndexFile] = []
        for file in reversed(self._there):
            tail = file.tail
            if tail.next_entry > 1 and self._begin <= tail.end_time and self._end >= tail.begin_time:
                chosen.append(file)
            if tail.next_entry > 1 and tail.begin_time < self._begin:
                break
        return chosen[::-1]

    def step(self) -> bool:
        """Search some more entries. Return True when none are left."""
        self._files = [file for file in self._files if file in self._there]  # the oldest go first: no hole
        for _ in range(_ENTRIES_AT_ONCE):
            if not self._files or len(self.found) >= self._limit:
                return True
            self._read_next(self._files[-1])
        return False

    def _read_next(self, file: IndexFile) -> None:
        if self._number is None:
            self._number = file.newest(self._hash)
        number = self._number
        if not 0 < number < file.tail.next_entry:
            self._next_file()
            return
        stored, position, seconds, previous = file.entry(number)
        time = file.tail.begin_time + seconds * 1000
        if stored == self._hash and self._begin <= time <= self._end:
            self.found.append(position)
        if previous >= number or time < self._begin:
            self._next_file()
        else:
            self._number = previous

    def _next_file(self) -> None:
        self._files.pop()
        self._number = None
