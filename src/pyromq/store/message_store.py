"""The store's front door: open, put, get, query, flush, close. Files only: no sockets, no topics' policy.

Plain synchronous code with one writer, the event loop's thread; the watermarks are where others wait. What blocks
(syncs, cold reads, new files) is handed to `run_blocking`. Putting is writer.py, reading reader.py, opening recovery.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from .. import logs
from ..ambient import Clock
from ..kernel.appends import Burst
from ..kernel.records import Placed, kernel_name
from ..machine.budget import Budget
from ..machine.descriptors import Shares
from ..protocol.batch import BatchEntry
from ..protocol.record import Record
from .config import FlushMode, StoreConfig
from .errors import StoreNotWritable
from .files.changes import Changes
from .files.disk import Disk, DiskError, DiskFull, DiskLock, SyncFailed
from .files.file_age import LogFile
from .files.free_space import Room, say_if_none_fits
from .files.open_files import OpenFiles
from .files.reads import NotResident, Reads
from .files.removals import Removals
from .index.key_index import Index
from .layout import COMMIT_LOG
from .log.commit_log import CommitLog
from .log.deleted_topics import DeletedTopics
from .log.flush import FlushPlanner, FullFlush, Marks
from .log.flush_loop import FlushLoop, LogFlusher, RunBlocking
from .log.readable import ArrivalListener, Readable
from .log.reader import SCAN_ENTRIES, KeyQuery, Reader, Selection
from .log.retention import FilesInUse
from .log.watermark import Watermark
from .log.whole_crc import ranges_that_count, read_ranges, save_ranges
from .log.writer import Writer
from .queues.extension import drop_extensions
from .queues.queue_table import QueueTable
from .queues.reserved_offsets import forget_taken
from .queues.unchanged_queues import note_folders, note_queues
from .recovery.catalogue import Catalogue, encode_queues, write_catalogue
from .recovery.checkpoint import SYNCED_FILE, forget_synced, mark_running, mark_stopped, read_checkpoint
from .recovery.derived_files import DerivedLeft, forget_derived, keep_derived, write_derived
from .recovery.lock import claim_store
from .recovery.recovery import Recovery, RecoveryReport
from .recovery.store_state import find_marks, refuse_missing_log, refuse_missing_tables, refuse_other_sizes
from .tables.json_tables import table_names

log = logs.get("pyromq.store")

T = TypeVar("T")
S = TypeVar("S")
_QUEUES_AT_ONCE = 200
_SAID_AGAIN_S = 60.0


async def run_at_once(call: Callable[[], T]) -> T:
    """A `RunBlocking` that does not leave the thread: for tools and tests."""
    return call()


class MessageStore:
    """One process, one writer; event loop only. Made by `open`, ended by `close`.

    Invariants: appended >= flushed; readable is appended under ASYNC_FLUSH and flushed under SYNC_FLUSH.
    """

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        clock: Clock,
        run_blocking: RunBlocking = run_at_once,
        is_batch_topic: Callable[[str], bool] = lambda topic: False,
        flusher: LogFlusher | None = None,
        lock: DiskLock | None = None,
        shares: Shares | None = None,
    ) -> None:
        """Opens and recovers: blocking, and done before the event loop serves anyone.

        Who did something with the store's files before has its `lock` already; the store releases it in the end.
        `shares`: how many files it may keep open, where others need descriptors too."""
        kernel_name()
        self._disk = disk
        self._config = config
        self._clock = clock
        self._run_blocking = run_blocking
        self._flusher = flusher  # without one, syncs of SYNC_FLUSH go through `run_blocking` too
        self._lock: DiskLock = lock or claim_store(disk)
        self._changes = Changes()
        self._reads = Reads()
        shares = shares or Budget().shares
        self._files = OpenFiles(disk, min(config.max_open_queue_files, shares.queue_files), self._reads)
        self.commit_log = CommitLog(disk, config, self._reads, shares.log_files)
        self._deleted = DeletedTopics(disk)
        self.queues = QueueTable(disk, self._files, self._changes, config, is_batch_topic, self._note_deleted)
        self.index = (
            Index(disk, config, self._changes, clock.now_ms, self._reads, self._files) if config.index_enabled else None
        )
        self.files_in_use = FilesInUse(clock)
        self._room = Room(disk)
        self._few = logs.Limited(log, clock, _SAID_AGAIN_S)  # a full disk fails these twice a second
        self._on_append: list[Callable[[], None]] = []
        self._full_flush = asyncio.Lock()
        try:
            self.recovery = self._recover()
        except BaseException:
            self._lock.release()
            raise
        self._removals = self._files.removals = Removals(disk)  # recovery is done: from here on a helper removes files
        self.commit_log.remove_by(self._removals)
        end = self.commit_log.end
        self.appended = Watermark(end)
        self.flushed = Watermark(end)
        self._readable = Readable(end)
        self.readable = self._readable.watermark
        self._writer = Writer(config, self.commit_log, self.queues, self.index, self._readable, clock.now_ms)
        self.reader = Reader(self.commit_log, self.queues, self.index, self._readable)
        _say_what_has_no_effect(config)
        if not self.commit_log.sequence.bases:
            say_if_none_fits(disk, config.commit_log_file_bytes)

    def _recover(self) -> RecoveryReport:
        checkpoint = read_checkpoint(self._disk)
        found = find_marks(self._disk, checkpoint)
        refuse_other_sizes(self._disk, self._config, found)  # before anything is changed
        refuse_missing_log(self._disk, self._config, found)
        refuse_missing_tables(self._disk, found)
        self.commit_log.whole_crc = ranges_that_count(self._disk, self._config, found.ours)
        if found.synced is None:
            if self._disk.exists(SYNCED_FILE):
                log.warning("our marks do not count: another broker wrote to this store since, or they are damaged")
            forget_synced(self._disk)
            forget_derived(self._disk)
        mark_running(self._disk, os.getpid())
        report = Recovery(
            self._disk, self._config, self.commit_log, self.queues, self.index, self._changes, found, self._deleted
        ).run()
        self._planner = FlushPlanner(self.commit_log, self.index, self._changes, checkpoint)
        self._marks = Marks(self._disk)
        if report.as_left and found.catalogue is not None:
            self._marks.derived = keep_derived(self._disk, found.catalogue.derived, self._few)
        if not found.clean_stop:
            # A killed process leaves files and names that nobody has synced, and nobody remembers which.
            self._disk.sync_all()
        # What recovery wrote and cut is on the medium before anything new is acked behind it.
        self._planner.plan_full(max(report.start, self.commit_log.start)).sync(self._disk, self._marks)
        forget_taken(self._disk)
        if self.index is not None:
            self.index.warm()
        self._marks.synced.raise_start(self.commit_log.start)
        self._note_whole_crc()
        drop_extensions(self._disk)
        if self._marks.derived is None:
            self._marks.derived = write_derived(self._disk, self._derived_names(), self._few)
        self._minimums_from = self.commit_log.start
        log.info(
            "store opened",
            root=self._disk.root,
            clean_stop=report.clean_stop,
            end=report.end,
            scanned=report.records,
            damaged=len(report.damage),
            rebuilt=len(report.rebuilt),
            as_left=report.as_left,
        )
        return report

    def _note_whole_crc(self) -> None:
        """Durable before the first append, which it speaks of."""
        if self._config.whole_record_crc:
            self.commit_log.whole_crc = self.commit_log.whole_crc.opened_at(self.commit_log.end, self.commit_log.start)
        try:
            save_ranges(self._disk, self.commit_log.whole_crc)
        except DiskFull:
            if not self._config.whole_record_crc and read_ranges(self._disk).open_from is not None:
                raise  # what is written without CRC would count as damaged
            log.warning("no room to write down where records have their own CRC")

    def _note_deleted(self, topic: str) -> None:
        """Its records up to here never get a queue again."""
        self._deleted.note(topic, self.commit_log.end, self.commit_log.start)

    def _derived_names(self) -> list[str]:
        names = list(self.queues.file_names())
        return names + [file.name for file in self.index.files] if self.index is not None else names

    # -- writing ------------------------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        return self._writer.is_writable

    def put(self, records: Sequence[Record]) -> list[Placed]:
        """Append a burst in one write. Whoever must know it safe awaits `readable` or `flushed` at the last end."""
        with self._room.watched():
            return self._appended(self._writer.put(records))

    def put_batch(self, batch: Record, entries: Sequence[BatchEntry] | None = None) -> list[Placed]:
        """The messages of a batch body as records of their own."""
        with self._room.watched():
            return self._appended(self._writer.put_batch(batch, entries))

    def why_no_room(self) -> str | None:
        """Why the last message was refused, while the disk is as full as it was then."""
        return self._room.refusal()

    def put_encoded(self, burst: Burst) -> None:
        """What a kernel made of a received buffer."""
        with self._room.watched():
            self._writer.put_encoded(burst)
            self._appended([])

    def steps(self, make: Callable[..., S]) -> S:
        """A kernel's way to put plain sends without Python between log, queues and index; its twin is `put_encoded`."""
        return make(
            self._writer,
            self.commit_log,
            self.queues,
            self.index,
            self._room,
            self.appended,
            self._readable,
            self._on_append,
            self._config.flush_mode is FlushMode.ASYNC,
        )

    def _appended(self, places: list[Placed]) -> list[Placed]:
        end = self.commit_log.end
        self.appended.advance(end)
        if self._config.flush_mode is FlushMode.ASYNC:
            self._readable.advance(end)
        for listener in self._on_append:
            listener()
        return places

    def on_append(self, listener: Callable[[], None]) -> None:
        self._on_append.append(listener)

    def on_arrival(self, topic: str, listener: ArrivalListener) -> None:
        """Call it with each queue of the topic that has new readable messages."""
        self._readable.on_arrival(topic, listener)

    def off_arrival(self, topic: str, listener: ArrivalListener) -> None:
        self._readable.off_arrival(topic, listener)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def select(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: Collection[int] | None = None,
        scan: int = SCAN_ENTRIES,
    ) -> Selection:
        """`reader.select`, after queue entries that are cold were read in a helper thread."""
        queue = self.queues.get(topic, queue_id)
        if queue is not None and not queue.is_resident(offset, scan):
            await self._run_blocking(lambda: queue.warm(offset, scan))
        return self.reader.select(
            topic, queue_id, offset, max_count=max_count, max_bytes=max_bytes, tag_codes=tag_codes, scan=scan
        )

    async def read(self, selection: Selection) -> list[bytes]:
        """The records of a selection: at once where they are in the page cache, else read in a helper thread."""
        resident = self.reader.read_resident(selection.ranges)
        if resident is not None:
            return resident
        bases = {self.commit_log.sequence.base_of(one.position) for one in selection.ranges}
        with self.files_in_use.reading(*bases):
            return await self._run_blocking(lambda: self.reader.read_cold(selection.ranges))

    async def ask(self, query: Callable[[], T]) -> T:
        """A query of `reader` that waits for the medium in a helper thread alone: what is not in the page cache is
        fetched there, and the query asked again. Nothing is handed to another thread, so it sees one state."""
        tried: NotResident | None = None
        while True:
            try:
                with self._reads.resident_only():
                    return query()
            except NotResident as miss:
                if tried is not None and tried.place == miss.place:
                    return query()  # it cannot be had or does not stay: rather wait than never answer
                tried = miss
            await self._run_blocking(partial(tried.warm, self._disk))

    def ask_now(self, query: Callable[[], T]) -> T | None:
        """The answer if it need not wait for the medium; None: use `ask`. It spares the hot paths a task."""
        try:
            with self._reads.resident_only():
                return query()
        except NotResident:
            return None

    async def by_key(self, query: KeyQuery) -> list[Record]:
        """`reader.by_key`, with cold reads in a helper thread, and in steps that let others in between."""
        search = self.reader.search(query)
        if search is None:
            return []
        while not await self.ask(search.step):
            await self._clock.sleep(0)
        records = [await self.ask(partial(self.reader.keyed_at, at, query)) for at in sorted(set(search.found))]
        return [record for record in records if record is not None]

    # -- flushing -----------------------------------------------------------------------------------------------------

    @property
    def unflushed(self) -> int:
        return self.appended.value - self.flushed.value

    async def flush_log(self) -> None:
        """One sync for everything appended so far."""
        plan = self._planner.plan_log(self.flushed.value)
        if plan.until > self.flushed.value:
            await self._guarded(self._run_blocking(lambda: plan.sync(self._disk)))
            self._flushed_until(plan.until)

    def flush_by(self, flusher: LogFlusher) -> None:
        flusher.start(self.commit_log, self.flushed.value, self._flushed_until, self._stop_writing)
        self.commit_log.tail.on_write = flusher.appended  # the sync runs while queues and index are written

    async def flush_all(self) -> None:
        """Log, queues, index, then the checkpoint. One after another: an older plan must not be written last."""
        async with self._full_flush:
            if not self._planner.has_work(self.flushed.value):
                return
            plan = self._plan_all()
            await self._guarded(self._run_blocking(lambda: plan.sync(self._disk, self._marks)))
            self._flushed_until(plan.log.until)

    def _plan_all(self) -> FullFlush:
        """Index entries that were gathered are written with this."""
        try:
            return self._planner.plan_full(self.flushed.value)
        except DiskError as fault:
            self._stop_writing(fault)
            raise StoreNotWritable(str(fault)) from fault

    async def _guarded(self, sync: Awaitable[None]) -> None:
        try:
            await sync
        except DiskError as fault:
            self._stop_writing(fault)
            raise StoreNotWritable(str(fault)) from fault

    def flush_now(self) -> None:
        """Everything, blocking: for tools, and for the end."""
        try:
            plan = self._planner.plan_full(self.flushed.value)
            plan.sync(self._disk, self._marks)
        except DiskError as fault:
            self._stop_writing(fault)
            raise
        self._flushed_until(plan.log.until)

    def _flushed_until(self, position: int) -> None:
        self.flushed.advance(position)
        if self._config.flush_mode is FlushMode.SYNC:
            self._readable.advance(position)

    def _stop_writing(self, fault: DiskError) -> None:
        """A failed sync is never tried again: who waits for it is told, what was acked before stays readable."""
        word = "a sync failed" if isinstance(fault, SyncFailed) else "a flush failed"
        self._writer.stop(f"{word}: {fault}. Look at the disk, then start again")
        log.error("the store takes no more messages", why=str(fault))
        failure = StoreNotWritable(str(fault))
        self.flushed.fail(failure)
        if self._config.flush_mode is FlushMode.SYNC:
            self.readable.fail(failure)

    async def make_file_ahead(self) -> None:
        """The next files of log and index are there before they are needed, so that no append waits for them."""
        if self.index is not None and self.index.wants_spare:
            await self._make_index_file(self.index)
        base = self.commit_log.next_base
        if base is None:
            return
        try:
            await self._run_blocking(lambda: self.commit_log.make_file(base))
        except DiskError as fault:
            self._few.warning("the next commit log file cannot be made yet", why=str(fault))
            return
        self.commit_log.adopt(base)

    async def _make_index_file(self, index: Index) -> None:
        name = index.name_spare()
        try:
            await self._run_blocking(lambda: index.make_spare(name))
        except DiskError as fault:
            self._few.warning("the next index file cannot be made yet", why=str(fault))
        index.adopt_spare()

    async def run(self) -> None:
        """Keep it flushed until cancelled. Whoever opens a store for writing runs this beside it."""
        await FlushLoop(self, self._config, self._clock, self._flusher).run()

    # -- retention ----------------------------------------------------------------------------------------------------

    def log_files(self) -> list[LogFile]:
        """The oldest first; retention.py decides which may go."""
        sequence = self.commit_log.sequence
        return [
            LogFile(base, base + sequence.file_bytes, self._disk.modified_ms(sequence.name(base)))
            for base in sequence.bases
        ]

    async def drop_oldest_log_file(self) -> None:
        """Remove it; queues and index follow, a share of them at a time so that the loop goes on meanwhile.

        It is synced before: a power cut may bring the name back, and then nothing in it may be torn. Nobody finds it
        from the mark on; freeing its blocks, which can take long, is left to a helper thread.
        """
        if self.flushed.value < self.commit_log.start + self.commit_log.file_bytes:
            await self.flush_log()
        if not self.commit_log.has_older:
            return
        second = self.commit_log.sequence.bases[1]
        await self._guarded(self._run_blocking(lambda: self._marks.synced.raise_start(second)))
        self.commit_log.drop_oldest()
        await self._run_blocking(self._removals.carry_out)
        await self._guarded(self._run_blocking(lambda: self._disk.sync_folder(COMMIT_LOG)))
        start = self.commit_log.start
        for number, queue in enumerate(self.queues):
            follow = partial(queue.raise_minimum, start)
            if self.ask_now(follow) is None:
                await self.ask(follow)  # its oldest entries are on the medium alone
            if number % _QUEUES_AT_ONCE == _QUEUES_AT_ONCE - 1:
                await self._clock.sleep(0)
        self._minimums_from = start
        for name in self.index.give_up_before(start) if self.index is not None else ():
            self._removals.add(name)
        if self._removals.holds():
            await self._run_blocking(self._removals.carry_out)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """A clean stop: all is synced, the next start need not look at more than the end. Blocking.

        Without room for the marks it is a stop like a kill: nothing is lost, the next start looks at more."""
        try:
            if self._writer.is_writable:
                self._close_cleanly()
        except DiskFull as fault:
            log.warning("no room to mark the clean stop: the next start recovers", why=str(fault))
        finally:
            self._writer.stop("the store is closed")
            if self.index is not None:
                self.index.close()
            self._files.close()
            self._lock.release()

    def _close_cleanly(self) -> None:
        self._removals.carry_out()
        if self.index is not None:
            self.index.tidy()
        self.flush_now()
        self._end_whole_crc()
        write_catalogue(self._disk, self._catalogue())
        self.commit_log.close()
        self._marks.close()
        mark_stopped(self._disk)

    def _end_whole_crc(self) -> None:
        """So that it counts even if someone else writes behind it."""
        end, last = self.commit_log.end, self.commit_log.last_position
        save_ranges(self._disk, self.commit_log.whole_crc.closed_at(end, last))

    def _catalogue(self) -> Catalogue:
        queues = [*self.queues.resting, *note_queues(self._disk, list(self.queues.awake()))]
        return Catalogue(
            read_checkpoint(self._disk).pack(),
            self._config.file_sizes,
            encode_queues(queues),
            None if self.index is None else self.index.known_files(),
            list(table_names(self._disk)),
            note_folders(self._disk, queues),
            self._minimums_from,
            DerivedLeft() if self._marks.derived is None else self._marks.derived.left(),
        )


def _say_what_has_no_effect(config: StoreConfig) -> None:
    for key, wanted in (
        ("transientStorePoolEnable", config.transient_store_pool),
        ("warmMapedFileEnable", config.warm_mapped_files),
    ):
        if wanted:
            log.warning("setting has no effect: appends are plain writes here, see docs/store.md", key=key)
