"""Reading on the event loop: what is in the page cache is read at once, what is not is fetched in a helper thread.

`MessageStore` hands these methods out; the queries themselves are plain synchronous code in reader.py. Nothing here
decides what a reader may see.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from ..ambient import Clock, RunBlocking
from ..protocol.record import Record
from .files.open_files import NotResident
from .log.reader import SCAN_ENTRIES, KeyQuery, Reader, Selection
from .log.retention import FilesInUse
from .store_files import StoreFiles

T = TypeVar("T")


class AsyncReader:
    """Event loop only. A query sees one state: it runs as a whole on the loop, and again after each fetch."""

    def __init__(
        self, files: StoreFiles, reader: Reader, files_in_use: FilesInUse, run_blocking: RunBlocking, clock: Clock
    ) -> None:
        self._disk = files.disk
        self._read_mode = files.read_mode
        self._log = files.commit_log
        self._queues = files.queues
        self._reader = reader
        self._files_in_use = files_in_use
        self._run_blocking = run_blocking
        self._clock = clock

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
        """Return what `Reader.select` does, after a helper thread has read queue entries that are cold."""
        queue = self._queues.get(topic, queue_id)
        if queue is not None and not queue.is_resident(offset, scan):
            await self._run_blocking(lambda: queue.warm(offset, scan))
        return self._reader.select(
            topic, queue_id, offset, max_count=max_count, max_bytes=max_bytes, tag_codes=tag_codes, scan=scan
        )

    async def read(self, selection: Selection) -> list[bytes]:
        """Return the records of a selection. Their log files are kept from deletion while a helper thread reads."""
        resident = self._reader.read_resident(selection.ranges)
        if resident is not None:
            return resident
        bases = {self._log.sequence.base_of(one.position) for one in selection.ranges}
        with self._files_in_use.reading(*bases):
            return await self._run_blocking(lambda: self._reader.read_cold(selection.ranges))

    async def ask(self, query: Callable[[], T]) -> T:
        """Run a query of `Reader` without blocking the loop.

        Where it needs a page that is not in the page cache, a helper thread fetches that page and the query runs
        again, until it finds all that it needs."""
        tried: NotResident | None = None
        while True:
            try:
                with self._read_mode.resident_only():
                    return query()
            except NotResident as miss:
                if tried is not None and tried.place == miss.place:
                    return query()  # it cannot be had or does not stay: rather wait than never answer
                tried = miss
            await self._run_blocking(partial(tried.warm, self._disk))

    def ask_now(self, query: Callable[[], T]) -> T | None:
        """Run a query if it need not wait for the medium; None: use `ask`. Saves the hot paths a task."""
        try:
            with self._read_mode.resident_only():
                return query()
        except NotResident:
            return None

    async def by_key(self, query: KeyQuery) -> list[Record]:
        """Return what `Reader.by_key` does, with cold reads in a helper thread. Other tasks run in between."""
        search = self._reader.search(query)
        if search is None:
            return []
        while not await self.ask(search.step):
            await self._clock.sleep(0)
        records = [await self.ask(partial(self._reader.keyed_at, at, query)) for at in sorted(set(search.found))]
        return [record for record in records if record is not None]
