"""Flushing an open store: the log alone, everything with its checkpoint, and the next files made ahead; and when.

log/flush.py says what is to be synced; `MessageStore` hands these methods out and runs `FlushLoop`, one task, ended by
cancelling it. A failed sync is never tried again: writing ends, reads go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from .. import logs
from ..ambient import Clock, RunBlocking
from .config import FlushMode, StoreConfig
from .errors import StoreNotWritable
from .files.disk import DiskError, SyncFailed
from .log.thread_flusher import ThreadFlusher
from .log.watermarks import Watermarks
from .opening import StoreParts

log = logs.get("pyromq.store")

_PAGE = 4096


@dataclass(slots=True, eq=False, repr=False)
class StoreFlusher:
    """Event loop only; the syncs themselves run in helper threads, except those of `flush_now`."""

    parts: StoreParts
    watermarks: Watermarks
    run_blocking: RunBlocking
    stop_writer: Callable[[str], None]  # called with the reason once a flush has failed
    full_flush: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def flush_log(self) -> None:
        """Sync everything appended so far, once for all who wait."""
        flushed = self.watermarks.flushed.value
        plan = self.parts.planner.plan_log(flushed)
        if plan.until > flushed:
            with self.guarded():
                await self.run_blocking(lambda: plan.sync(self.parts.files.disk))
            self.watermarks.flushed_to(plan.until)

    def flush_by(self, flusher: ThreadFlusher) -> None:
        """Let `flusher` sync the log from here on. It hears of each append before queues and index are written."""
        commit_log, marks = self.parts.files.commit_log, self.watermarks
        flusher.start(commit_log, marks.flushed.value, marks.flushed_to, self._stop_writing)
        commit_log.tail.on_write = flusher.appended

    async def flush_all(self) -> None:
        """Sync log, queues and index, then write the checkpoint. One at a time: no older plan may be written last."""
        async with self.full_flush:
            if not self.parts.planner.has_work(self.watermarks.flushed.value):
                return
            with self.guarded():
                plan = self.parts.planner.plan_full(self.watermarks.flushed.value)  # writes the gathered index entries
                await self.run_blocking(lambda: plan.sync(self.parts.files.disk, *self.parts.checkpoints))
            self.watermarks.flushed_to(plan.log.until)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Let a flush that fails within the block end writing."""
        try:
            yield
        except DiskError as fault:
            self._stop_writing(fault)
            raise StoreNotWritable(str(fault)) from fault

    def flush_now(self) -> None:
        """Flush everything and block until it is done: for tools, and for the end."""
        try:
            plan = self.parts.planner.plan_full(self.watermarks.flushed.value)
            plan.sync(self.parts.files.disk, *self.parts.checkpoints)
        except DiskError as fault:
            self._stop_writing(fault)
            raise
        self.watermarks.flushed_to(plan.log.until)

    def _stop_writing(self, fault: DiskError) -> None:
        """End writing and fail everybody who waits for the sync. What was acked before stays readable."""
        word = "a sync failed" if isinstance(fault, SyncFailed) else "a flush failed"
        self.stop_writer(f"{word}: {fault}. Look at the disk, then start again")
        log.error("the store takes no more messages", why=str(fault))
        self.watermarks.fail(StoreNotWritable(str(fault)))

    async def make_file_ahead(self) -> None:
        """Make the next files of log and index before they are needed, so that no append waits for them."""
        index, commit_log = self.parts.files.index, self.parts.files.commit_log
        if index is not None and index.wants_spare:
            await self._make("index", partial(index.make_spare, index.name_spare()))
            index.adopt_spare()
        base = commit_log.next_base
        if base is not None and await self._make("commit log", partial(commit_log.make_file, base)):
            commit_log.adopt(base)

    async def _make(self, what: str, make: Callable[[], None]) -> bool:
        try:
            await self.run_blocking(make)
        except DiskError as fault:
            self.parts.limited_log.warning(f"the next {what} file cannot be made yet", why=str(fault))
            return False
        return True


@dataclass(slots=True, eq=False, repr=False)
class FlushLoop:
    """ASYNC_FLUSH: by the clock, as Java's intervals say. SYNC_FLUSH: as soon as anything was appended; whatever comes
    in while a sync runs shares the next one, and a lone writer waits for nobody."""

    flushing: StoreFlusher
    config: StoreConfig
    clock: Clock
    flusher: ThreadFlusher | None = None

    async def run(self) -> None:
        """Run until cancelled. A flush that fails ends writing, not this loop: reads go on."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._sync_mode() if self.config.flush_mode is FlushMode.SYNC else self._async_mode())
                tasks.create_task(self._derived())
                tasks.create_task(self._files_ahead())
        except* StoreNotWritable:
            await asyncio.Event().wait()  # there is nothing left to flush; the store has said why

    async def _sync_mode(self) -> None:
        if self.flusher is not None:
            self.flushing.flush_by(self.flusher)
            try:
                await asyncio.Event().wait()
            finally:
                self.flusher.end()
        appended = asyncio.Event()
        appended.set()  # something may have been appended before
        self.flushing.watermarks.on_append.append(appended.set)
        while True:
            await appended.wait()
            appended.clear()
            await self.flushing.flush_log()

    async def _async_mode(self) -> None:
        last = self.clock.monotonic()
        while True:
            await self.clock.sleep(self.config.flush_interval_ms / 1000)
            now = self.clock.monotonic()
            overdue = (now - last) * 1000 >= self.config.flush_thorough_ms
            unflushed = self.flushing.watermarks.unflushed
            if unflushed >= max(1, self.config.flush_least_pages * _PAGE) or (overdue and unflushed):
                await self.flushing.flush_log()
                last = now

    async def _derived(self) -> None:
        while True:
            await self.clock.sleep(self.config.queue_flush_interval_ms / 1000)
            await self.flushing.flush_all()

    async def _files_ahead(self) -> None:
        while True:
            await self.flushing.make_file_ahead()
            await self.clock.sleep(self.config.flush_interval_ms / 1000)
