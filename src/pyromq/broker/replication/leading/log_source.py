"""The log as it goes to slaves: pieces that stay in one file, from the page cache where they are in it."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from ....ambient import RunBlocking
from ....store.log.commit_log import CommitLog

PIECE_BYTES = 64 << 10  # read at once; a slave may get it in smaller chunks


class LogSource(Protocol):
    """What a sender wants of a log. Positions from `start` to `end` are there."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def last_file(self) -> int:
        """Return where the file begins that is written."""
        ...

    def read_now(self, position: int, most: int) -> bytes | None:
        """Return bytes from here on, of one file, at least one; None: they are not in memory, or cannot be read."""
        ...

    async def read_later(self, position: int, most: int) -> bytes:
        """Return the same, however long it takes; nothing: they cannot be read."""
        ...


class CommitLogSource:
    """A store's log. Event loop only; what is not in memory is read in a helper thread."""

    def __init__(self, log: CommitLog, run_blocking: RunBlocking) -> None:
        self._log = log
        self._run_blocking = run_blocking

    @property
    def start(self) -> int:
        return self._log.start

    @property
    def end(self) -> int:
        return self._log.end

    @property
    def last_file(self) -> int:
        bases = self._log.sequence.bases
        return bases[-1] if bases else self._log.end

    def read_now(self, position: int, most: int) -> bytes | None:
        return self._log.read_resident(position, self._length(position, most)) or None

    async def read_later(self, position: int, most: int) -> bytes:
        wanted = ((position, self._length(position, most)),)
        return (await self._run_blocking(partial(self._log.read_apart, wanted)))[0]

    def _length(self, position: int, most: int) -> int:
        """Return how many bytes there are from here on: up to `most`, within the file and the log."""
        log = self._log
        return min(most, log.file_bytes - position % log.file_bytes, log.end - position)
