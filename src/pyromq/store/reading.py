"""Reading on the event loop: what is in the page cache is read at once, what is not is fetched in a helper thread.

`MessageStore` hands these methods out; the queries themselves are plain synchronous code in reader.py. Nothing here
decides what a reader may see.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ..ambient import Clock, RunBlocking
from ..protocol.record import Record
from .files.open_files import NotResident
from .log.reader import SCAN_ENTRIES, KeyQuery, Reader, Selection
from .log.retention import FilesInUse
from .store_files import StoreFiles

T = TypeVar("T")


@dataclass(slots=True, eq=False, repr=False)
class AsyncReader:
    """Event loop only. A query sees one state: it runs as a whole on the loop, and again after each fetch."""

    files: StoreFiles
    reader: Reader
    files_in_use: FilesInUse
    run_blocking: RunBlocking
    clock: Clock

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
        queue = self.files.queues.get(topic, queue_id)
        if queue is not None and not queue.is_resident(offset, scan):
            await self.run_blocking(lambda: queue.warm(offset, scan))
        return self.reader.select(
            topic, queue_id, offset, max_count=max_count, max_bytes=max_bytes, tag_codes=tag_codes, scan=scan
        )

    async def read(self, selection: Selection) -> list[bytes]:
        """Return the records of a selection. Their log files are kept from deletion while a helper thread reads."""
        resident = self.reader.read_resident(selection.ranges)
        if resident is not None:
            return resident
        bases = {self.files.commit_log.sequence.base_of(one.position) for one in selection.ranges}
        with self.files_in_use.reading(*bases):
            return await self.run_blocking(lambda: self.reader.read_cold(selection.ranges))

    async def ask(self, query: Callable[[], T]) -> T:
        """Run a query of `Reader` without blocking the loop.

        Where it needs a page that is not in the page cache, a helper thread fetches that page and the query runs
        again, until it finds all that it needs."""
        tried: NotResident | None = None
        while True:
            try:
                with self.files.read_mode.resident_only():
                    return query()
            except NotResident as miss:
                if tried is not None and tried.place == miss.place:
                    return query()  # it cannot be had or does not stay: rather wait than never answer
                tried = miss
            await self.run_blocking(partial(tried.warm, self.files.disk))

    def ask_now(self, query: Callable[[], T]) -> T | None:
        """Run a query if it need not wait for the medium; None: use `ask`. Saves the hot paths a task."""
        try:
            with self.files.read_mode.resident_only():
                return query()
        except NotResident:
            return None

    async def by_key(self, query: KeyQuery) -> list[Record]:
        """Return the newest records with a key or tag, in ascending order of position. Other tasks run in between."""
        search = self.reader.search(query)
        if search is None:
            return []
        while not await self.ask(search.step):
            await self.clock.sleep(0)
        records = [await self.ask(partial(self.reader.keyed_at, at, query)) for at in sorted(set(search.found))]
        return [record for record in records if record is not None]
