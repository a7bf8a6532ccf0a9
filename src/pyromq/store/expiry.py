"""Removing the oldest log file, and letting queues and index follow the log's new start.

`log/retention.py` decides which file goes and when; this carries it out. The last file never goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from ..ambient import Clock, RunBlocking
from .files.file_age import LogFile
from .flushing import StoreFlusher
from .layout import COMMIT_LOG
from .reading import AsyncReader
from .recovery.checkpoint import SyncedFile
from .store_files import StoreFiles

_QUEUES_AT_ONCE = 200


@dataclass(slots=True, eq=False, repr=False)
class LogExpiry:
    """Event loop only. `minimums_from` is the start of the log that the queues' minimums follow by now."""

    files: StoreFiles
    synced: SyncedFile
    flusher: StoreFlusher
    reader: AsyncReader
    run_blocking: RunBlocking
    clock: Clock
    minimums_from: int = field(init=False)

    def __post_init__(self) -> None:
        self.minimums_from = self.files.commit_log.start

    def log_files(self) -> list[LogFile]:
        sequence, disk = self.files.commit_log.sequence, self.files.disk
        return [
            LogFile(base, base + sequence.file_bytes, disk.modified_ms(sequence.name(base))) for base in sequence.bases
        ]

    async def drop_oldest_log_file(self) -> None:
        """Remove the oldest file; queues and index follow, some at a time so that the loop goes on meanwhile.

        The file is synced first: a power cut may bring its name back, and then nothing in it may be torn. Nobody finds
        it once the new start is written down; freeing its blocks, which can take long, is left to a helper thread.
        """
        log, index, removals = self.files.commit_log, self.files.index, self.files.removals
        if self.flusher.watermarks.flushed.value < log.start + log.file_bytes:
            await self.flusher.flush_log()
        if not log.has_older:
            return
        with self.flusher.guarded():
            await self.run_blocking(partial(self.synced.raise_start, log.sequence.bases[1]))
        log.drop_oldest()
        await self.run_blocking(removals.carry_out)
        with self.flusher.guarded():
            await self.run_blocking(partial(self.files.disk.sync_folder, COMMIT_LOG))
        start = log.start
        await self._raise_minimums(start)
        for name in index.give_up_before(start) if index is not None else ():
            removals.add(name)
        if removals.holds():
            await self.run_blocking(removals.carry_out)

    async def _raise_minimums(self, start: int) -> None:
        for number, queue in enumerate(self.files.queues):
            follow = partial(queue.raise_minimum, start)
            if self.reader.ask_now(follow) is None:
                await self.reader.ask(follow)  # its oldest entries are on the medium alone
            if number % _QUEUES_AT_ONCE == _QUEUES_AT_ONCE - 1:
                await self.clock.sleep(0)
        self.minimums_from = start
