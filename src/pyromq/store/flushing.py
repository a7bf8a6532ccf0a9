"""Flushing an open store: the log alone, everything with its checkpoint, and the next files made ahead.

log/flush.py says what is to be synced, flush_loop.py says when; `MessageStore` hands these methods out. A failed sync
is never tried again: writing ends, reads go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .. import logs
from ..ambient import RunBlocking
from .errors import StoreNotWritable
from .files.disk import DiskError, SyncFailed
from .index.key_index import Index
from .log.flush import FullFlush, LogFlusher
from .log.watermarks import Watermarks
from .parts import StoreParts

log = logs.get("pyromq.store")


class StoreFlusher:
    """Event loop only; the syncs themselves run in helper threads, except those of `flush_now`."""

    def __init__(
        self,
        parts: StoreParts,
        watermarks: Watermarks,
        run_blocking: RunBlocking,
        stop_writer: Callable[[str], None],
    ) -> None:
        """Take the parts of an open store. `stop_writer` is called with the reason once a flush has failed."""
        self._disk = parts.files.disk
        self._log = parts.files.commit_log
        self._index = parts.files.index
        self._planner = parts.planner
        self._checkpoints = parts.checkpoints
        self._limited_log = parts.limited_log
        self._watermarks = watermarks
        self._run_blocking = run_blocking
        self._stop_writer = stop_writer
        self._full_flush = asyncio.Lock()

    @property
    def unflushed(self) -> int:
        return self._watermarks.unflushed

    def on_append(self, listener: Callable[[], None]) -> None:
        self._watermarks.on_append.append(listener)

    async def flush_log(self) -> None:
        """Sync everything appended so far, once for all who wait."""
        flushed = self._watermarks.flushed.value
        plan = self._planner.plan_log(flushed)
        if plan.until > flushed:
            await self.guarded(self._run_blocking(lambda: plan.sync(self._disk)))
            self._watermarks.flushed_to(plan.until)

    def flush_by(self, flusher: LogFlusher) -> None:
        """Let `flusher` sync the log from here on. It hears of each append before queues and index are written."""
        flusher.start(self._log, self._watermarks.flushed.value, self._watermarks.flushed_to, self._stop_writing)
        self._log.tail.on_write = flusher.appended

    async def flush_all(self) -> None:
        """Sync log, queues and index, then write the checkpoint. One at a time: no older plan may be written last."""
        async with self._full_flush:
            if not self._planner.has_work(self._watermarks.flushed.value):
                return
            plan = self._plan_all()
            await self.guarded(self._run_blocking(lambda: plan.sync(self._disk, *self._checkpoints)))
            self._watermarks.flushed_to(plan.log.until)

    def _plan_all(self) -> FullFlush:
        """Plan a full flush. That writes the index entries that were gathered, so it can fail too."""
        try:
            return self._planner.plan_full(self._watermarks.flushed.value)
        except DiskError as fault:
            self._stop_writing(fault)
            raise StoreNotWritable(str(fault)) from fault

    async def guarded(self, sync: Awaitable[None]) -> None:
        """Await a sync; one that fails ends writing."""
        try:
            await sync
        except DiskError as fault:
            self._stop_writing(fault)
            raise StoreNotWritable(str(fault)) from fault

    def flush_now(self) -> None:
        """Flush everything and block until it is done: for tools, and for the end."""
        try:
            plan = self._planner.plan_full(self._watermarks.flushed.value)
            plan.sync(self._disk, *self._checkpoints)
        except DiskError as fault:
            self._stop_writing(fault)
            raise
        self._watermarks.flushed_to(plan.log.until)

    def _stop_writing(self, fault: DiskError) -> None:
        """End writing and fail everybody who waits for the sync. What was acked before stays readable."""
        word = "a sync failed" if isinstance(fault, SyncFailed) else "a flush failed"
        self._stop_writer(f"{word}: {fault}. Look at the disk, then start again")
        log.error("the store takes no more messages", why=str(fault))
        self._watermarks.fail(StoreNotWritable(str(fault)))

    async def make_file_ahead(self) -> None:
        """Make the next files of log and index before they are needed, so that no append waits for them."""
        if self._index is not None and self._index.wants_spare:
            await self._make_index_file(self._index)
        base = self._log.next_base
        if base is None:
            return
        try:
            await self._run_blocking(lambda: self._log.make_file(base))
        except DiskError as fault:
            self._limited_log.warning("the next commit log file cannot be made yet", why=str(fault))
            return
        self._log.adopt(base)

    async def _make_index_file(self, index: Index) -> None:
        name = index.name_spare()
        try:
            await self._run_blocking(lambda: index.make_spare(name))
        except DiskError as fault:
            self._limited_log.warning("the next index file cannot be made yet", why=str(fault))
        index.adopt_spare()
