"""The store's front door: open, put, read, flush, close. Files only: no sockets, no topics' policy.

Plain synchronous code with one writer, the event loop's thread; the watermarks are where others wait. What blocks
(syncs, cold reads, new files) is handed to `run_blocking`. This file joins the parts and holds no logic of its own:
opening.py opens and closes, log/writer.py puts, log/following.py takes a master's records, reading.py and log/reader.py
read, flushing.py flushes, expiry.py lets the oldest log file go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from .. import logs
from ..ambient import Clock, RunBlocking
from ..machine.descriptors import Shares
from .config import StoreConfig
from .errors import StoreNotWritable
from .expiry import LogExpiry
from .files.disk import Disk, DiskFull, DiskLock
from .files.free_space import FreeSpace
from .flushing import FlushLoop, StoreFlusher
from .log.following import Following
from .log.reader import Reader
from .log.retention import FilesInUse
from .log.thread_flusher import ThreadFlusher
from .log.unconfirmed import confirmed_at_start, hide_unconfirmed
from .log.watermarks import Watermarks
from .log.writer import Writer
from .opening import close_parts, open_parts, stop_cleanly
from .reading import AsyncReader

log = logs.get("pyromq.store")

T = TypeVar("T")


async def run_at_once(call: Callable[[], T]) -> T:
    """Run the call without leaving the thread: a `RunBlocking` for tools and tests."""
    return call()


class MessageStore:
    """One process, one writer; event loop only. Ended by `close`."""

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        clock: Clock,
        run_blocking: RunBlocking = run_at_once,
        is_batch_topic: Callable[[str], bool] = lambda topic: False,
        flusher: ThreadFlusher | None = None,
        lock: DiskLock | None = None,
        shares: Shares | None = None,
        on_scan: Callable[[int], None] = lambda position: None,
        is_elected: bool = False,
    ) -> None:
        """Open and recover: blocking, and done before the event loop serves anyone.

        `flusher`: syncs the log under SYNC_FLUSH; without one these syncs go through `run_blocking` too. `lock`: of a
        caller who has used the store's files before; the store releases it in the end. `shares`: how many files it may
        keep open, where others need descriptors too. `on_scan`: called with the positions that recovery has reached.
        `is_elected`: a replica of an elected set. What is readable begins with what that set has confirmed, which the
        checkpoint keeps, and grows by `confirm` alone."""
        parts = self._parts = open_parts(disk, config, clock, is_batch_topic, lock, shares, on_scan)
        files = parts.files
        self.commit_log, self.queues, self.index = files.commit_log, files.queues, files.index
        self.recovery = parts.report
        confirmed = confirmed_at_start(disk, files.commit_log) if is_elected else None
        watermarks = self._watermarks = Watermarks(files.commit_log.end, config.flush_mode, confirmed)
        if is_elected:
            hide_unconfirmed(files.commit_log, files.queues, watermarks, config.delay_levels)
            parts.planner.confirmed = lambda: watermarks.arrivals.whole
        self.appended, self.flushed, self.readable = watermarks.appended, watermarks.flushed, watermarks.readable
        self.confirm = watermarks.confirm
        self.on_append = watermarks.on_append  # called behind each append
        self.on_arrival, self.off_arrival = watermarks.arrivals.on_arrival, watermarks.arrivals.off_arrival

        free_space = FreeSpace(disk)
        self.disk_full_reason = free_space.refusal
        writer = self._writer = Writer(
            config, self.commit_log, self.queues, self.index, watermarks, free_space, clock.now_ms
        )
        self.put, self.put_batch, self.appender = writer.put, writer.put_batch, writer.appender

        synced, delays = parts.checkpoints.synced, config.delay_levels
        self.following = Following(disk, self.commit_log, writer, watermarks, synced, delays, config.whole_record_crc)

        self.reader = Reader(self.commit_log, self.queues, self.index, watermarks.arrivals)
        self.files_in_use = FilesInUse(clock)
        reading = self._reading = AsyncReader(files, self.reader, self.files_in_use, run_blocking, clock)
        self.select, self.read, self.by_key = reading.select, reading.read, reading.by_key
        self.ask, self.ask_now = reading.ask, reading.ask_now

        flushing = StoreFlusher(parts, watermarks, run_blocking, self._writer.stop)
        self.flush_log, self.flush_all, self.flush_now = flushing.flush_log, flushing.flush_all, flushing.flush_now
        self.make_file_ahead, self.flush_by = flushing.make_file_ahead, flushing.flush_by
        self._flush_loop = FlushLoop(flushing, config, clock, flusher)

        self._expiry = LogExpiry(files, synced, flushing, reading, run_blocking, clock)
        self.log_files, self.drop_oldest_log_file = self._expiry.log_files, self._expiry.drop_oldest_log_file

    def take_from_master_only(self) -> None:
        """Refuse every put from here on: this is a slave's store, and only `following` writes to its log."""

        def refuse(*_: object, **__: object) -> NoReturn:
            raise StoreNotWritable("this broker is a slave: its log has the records of its master, and no others")

        self.put = self.put_batch = refuse

    @property
    def is_writable(self) -> bool:
        return self._writer.is_writable

    @property
    def unflushed(self) -> int:
        """Return how many bytes were appended and are not synced."""
        return self._watermarks.unflushed

    async def run(self) -> None:
        """Keep the store flushed until cancelled. Whoever opens a store for writing runs this beside it."""
        await self._flush_loop.run()

    def close(self) -> None:
        """Stop cleanly: all is synced, the next start need not look at more than the end. Blocking.

        Without space to mark it, the stop is one like a kill: nothing is lost, the next start recovers."""
        try:
            if self._writer.is_writable:
                stop_cleanly(self._parts, self.flush_now, self._expiry.minimums_from)
        except DiskFull as fault:
            log.warning("no room to mark the clean stop: the next start recovers", why=str(fault))
        finally:
            self._writer.stop("the store is closed")
            close_parts(self._parts)
