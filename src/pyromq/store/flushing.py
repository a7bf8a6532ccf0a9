"""Flushing an open store: the log alone, everything with its checkpoint, and the next files made ahead; and when.

log/flush.py says what is to be synced; `MessageStore` hands these methods out and runs `FlushLoop`, one task, ended by
cancelling it. A failed sync is never tried again: writing ends, reads go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .. import logs
from ..ambient import Clock, RunBlocking
from .config import FlushMode, StoreConfig
from .errors import StoreNotWritable
from .files.disk import DiskError, SyncFailed
from .index.key_index import Index
from .log.flush import FullFlush, LogFlusher
from .log.watermarks import Watermarks
from .opening import StoreParts

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


_PAGE = 4096


class FlushLoop:
    """ASYNC_FLUSH: by the clock, as Java's intervals say. SYNC_FLUSH: as soon as anything was appended; whatever comes
    in while a sync runs shares the next one, and a lone writer waits for nobody."""

    def __init__(
        self, flushing: StoreFlusher, config: StoreConfig, clock: Clock, flusher: LogFlusher | None = None
    ) -> None:
        self._flushing = flushing
        self._config = config
        self._clock = clock
        self._flusher = flusher

    async def run(self) -> None:
        """Run until cancelled. A flush that fails ends writing, not this loop: reads go on."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(
                    self._sync_mode() if self._config.flush_mode is FlushMode.SYNC else self._async_mode()
                )
                tasks.create_task(self._derived())
                tasks.create_task(self._files_ahead())
        except* StoreNotWritable:
            await asyncio.Event().wait()  # there is nothing left to flush; the store has said why

    async def _sync_mode(self) -> None:
        if self._flusher is not None:
            self._flushing.flush_by(self._flusher)
            try:
                await asyncio.Event().wait()
            finally:
                self._flusher.end()
        appended = asyncio.Event()
        appended.set()  # something may have been appended before
        self._flushing.on_append(appended.set)
        while True:
            await appended.wait()
            appended.clear()
            await self._flushing.flush_log()

    async def _async_mode(self) -> None:
        last = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._config.flush_interval_ms / 1000)
            now = self._clock.monotonic()
            overdue = (now - last) * 1000 >= self._config.flush_thorough_ms
            if self._flushing.unflushed >= max(1, self._config.flush_least_pages * _PAGE) or (
                overdue and self._flushing.unflushed
            ):
                await self._flushing.flush_log()
                last = now

    async def _derived(self) -> None:
        while True:
            await self._clock.sleep(self._config.queue_flush_interval_ms / 1000)
            await self._flushing.flush_all()

    async def _files_ahead(self) -> None:
        while True:
            await self._flushing.make_file_ahead()
            await self._clock.sleep(self._config.flush_interval_ms / 1000)
