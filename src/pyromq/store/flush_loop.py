"""The loops that keep a running store flushed, and the next log file made ahead. One task, ended by cancelling it."""

from __future__ import annotations

import asyncio

from ..ambient import Clock
from .config import FlushMode, StoreConfig
from .errors import StoreNotWritable
from .flushing import StoreFlusher
from .log.flush import LogFlusher

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
