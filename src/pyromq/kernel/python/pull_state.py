"""What verdicts on pulls hold, in plain Python: `native/pull_state.pxi` has the same classes with C fields.

Made through `kernel/pull_state.py` by those who own the facts: the broker sets flags and keeps offsets, the store names
its files. Event loop only.
"""

from __future__ import annotations

from collections.abc import Callable

from .state import OpenFile


class ChangeFlag:
    """Something that verdicts depend on, as it was when they were given. Whoever changes it sets the flag, for good."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class PulledOffset:
    """The offset that a group asked a queue for last."""

    __slots__ = ("_changed", "_pair", "value")

    def __init__(self, value: int, pair: str, changed: set[str]) -> None:
        """`changed` gets `pair` (topic and group) whenever the offset changes: it is to be saved."""
        self.value = value
        self._pair = pair
        self._changed = changed

    def note(self, offset: int) -> None:
        if self.value != offset:
            self.value = offset
            self._changed.add(self._pair)


class ResidentFiles:
    """Files of one length that are one run of bytes, read as far as they are in memory."""

    __slots__ = ("_file_bytes", "_read_by_disk")

    def __init__(
        self,
        file_bytes: int,
        find: Callable[[int], OpenFile | None],
        read_by_disk: Callable[[int, int], bytes | None],
    ) -> None:
        """`find` returns the open file of a position, for a kernel that reads by descriptors, if there are any."""
        self._file_bytes = file_bytes
        self._read_by_disk = read_by_disk

    def read(self, position: int, length: int) -> bytes | None:
        """Return the bytes, which lie in one file; None: they are not there, or not in memory."""
        if position < 0 or length > self._file_bytes - position % self._file_bytes:
            return None
        raw = self._read_by_disk(position, length)
        return raw if raw is not None and len(raw) == length else None
