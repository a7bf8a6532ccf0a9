"""Removing the oldest log file, and letting queues and index follow the log's new start.

`log/retention.py` decides which file goes and when; this carries it out. The last file never goes.
"""

from __future__ import annotations

from functools import partial

from ..ambient import Clock, RunBlocking
from .files.file_age import LogFile
from .flushing import StoreFlusher
from .layout import COMMIT_LOG
from .log.watermarks import Watermark
from .opening import StoreParts
from .reading import AsyncReader

_QUEUES_AT_ONCE = 200


class LogExpiry:
    """Event loop only. `minimums_from` is the start of the log that the queues' minimums follow by now."""

    def __init__(
        self,
        parts: StoreParts,
        flusher: StoreFlusher,
        flushed: Watermark,
        reader: AsyncReader,
        run_blocking: RunBlocking,
        clock: Clock,
    ) -> None:
        self._disk = parts.files.disk
        self._log = parts.files.commit_log
        self._queues = parts.files.queues
        self._index = parts.files.index
        self._synced = parts.checkpoints.synced
        self._removals = parts.files.removals
        self._flusher = flusher
        self._flushed = flushed
        self._reader = reader
        self._run_blocking = run_blocking
        self._clock = clock
        self.minimums_from = parts.files.commit_log.start

    def log_files(self) -> list[LogFile]:
        sequence = self._log.sequence
        return [
            LogFile(base, base + sequence.file_bytes, self._disk.modified_ms(sequence.name(base)))
            for base in sequence.bases
        ]

    async def drop_oldest_log_file(self) -> None:
        """Remove the oldest file; queues and index follow, some at a time so that the loop goes on meanwhile.

        The file is synced first: a power cut may bring its name back, and then nothing in it may be torn. Nobody finds
        it once the new start is written down; freeing its blocks, which can take long, is left to a helper thread.
        """
        log = self._log
        if self._flushed.value < log.start + log.file_bytes:
            await self._flusher.flush_log()
        if not log.has_older:
            return
        second = log.sequence.bases[1]
        await self._flusher.guarded(self._run_blocking(lambda: self._synced.raise_start(second)))
        log.drop_oldest()
        await self._run_blocking(self._removals.carry_out)
        await self._flusher.guarded(self._run_blocking(lambda: self._disk.sync_folder(COMMIT_LOG)))
        start = log.start
        await self._raise_minimums(start)
        for name in self._index.give_up_before(start) if self._index is not None else ():
            self._removals.add(name)
        if self._removals.holds():
            await self._run_blocking(self._removals.carry_out)

    async def _raise_minimums(self, start: int) -> None:
        for number, queue in enumerate(self._queues):
            follow = partial(queue.raise_minimum, start)
            if self._reader.ask_now(follow) is None:
                await self._reader.ask(follow)  # its oldest entries are on the medium alone
            if number % _QUEUES_AT_ONCE == _QUEUES_AT_ONCE - 1:
                await self._clock.sleep(0)
        self.minimums_from = start
