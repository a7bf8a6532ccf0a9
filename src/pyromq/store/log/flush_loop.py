"""The loops that keep a running store flushed, and the next log file made ahead. One task, ended by cancelling it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from ...ambient import Clock
from ..config import FlushMode, StoreConfig
from ..errors import StoreNotWritable
from ..files.disk import DiskError
from .commit_log import CommitLog

T = TypeVar("T")
PAGE = 4096


class RunBlocking(Protocol):
    """Runs a blocking call away from the event loop (a small thread pool; tests run it at once)."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class LogFlusher(Protocol):
    """Syncs the log under SYNC_FLUSH by itself, whenever it has grown."""

    def start(
        self, log: CommitLog, synced: int, flushed: Callable[[int], None], failed: Callable[[DiskError], None]
    ) -> None:
        """`flushed` is called with positions up to which the log is on the medium, `failed` once, if a sync fails."""
        ...

    def appended(self) -> None: ...

    def end(self) -> None: ...


class Flushable(Protocol):
    """What the loops ask of the store."""

    @property
    def unflushed(self) -> int:
        """Bytes appended and not synced."""
        ...

    async def flush_log(self) -> None: ...

    async def flush_all(self) -> None: ...

    async def make_file_ahead(self) -> None: ...

    def flush_by(self, flusher: LogFlusher) -> None:
        """Start it, and tell it of each append."""
        ...

    def on_append(self, listener: Callable[[], None]) -> None: ...


class FlushLoop:
    """ASYNC_FLUSH: by the clock, as Java's intervals say. SYNC_FLUSH: as soon as anything was appended; whatever comes
    in while a sync runs shares the next one, and a lone writer waits for nobody."""

    def __init__(self, store: Flushable, config: StoreConfig, clock: Clock, flusher: LogFlusher | None = None) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._flusher = flusher
        self._appended = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. A flush that fails ends writing, not this: reads go on."""
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
            self._store.flush_by(self._flusher)
            try:
                await asyncio.Event().wait()
            finally:
                self._flusher.end()
        self._store.on_append(self._appended.set)
        self._appended.set()  # what was appended before
        while True:
            await self._appended.wait()
            self._appended.clear()
            await self._store.flush_log()

    async def _async_mode(self) -> None:
        last = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._config.flush_interval_ms / 1000)
            now = self._clock.monotonic()
            overdue = (now - last) * 1000 >= self._config.flush_thorough_ms
            if self._store.unflushed >= max(1, self._config.flush_least_pages * PAGE) or (
                overdue and self._store.unflushed
            ):
                await self._store.flush_log()
                last = now

    async def _derived(self) -> None:
        while True:
            await self._clock.sleep(self._config.queue_flush_interval_ms / 1000)
            await self._store.flush_all()

    async def _files_ahead(self) -> None:
        while True:
            await self._store.make_file_ahead()
            await self._clock.sleep(self._config.flush_interval_ms / 1000)
