"""One read of a queue for a consumer, as pulls and pops do it: select by tags or expression, then read the records.

What is in the page cache is read at once. What is not is read in a helper thread, less of it at a time, by turns, and
held to the rates of groups that read much from the medium: someone who replays yesterday disturbs no producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...ambient import Clock
from ...kernel.records import Range
from ...store.layout import QUEUE_ENTRY_BYTES
from ...store.log.reader import SCAN_ENTRIES, Selection
from ...store.message_store import MessageStore
from ..config import BrokerConfig
from ..filters.filters import Wanted
from .filtered_read import SEARCH_S, Matches, Search, SearchResult, find_matches, selection_of
from .slow_readers import MOST_WAIT_S, ColdReads

COLD_AT_ONCE = 1  # of the composition root's helper threads one is for cold reads


class ColdRead(NamedTuple):
    """What came from the medium. `records` is None if the group has read too much: it should come again later."""

    selection: Selection
    records: list[bytes] | None


@dataclass(slots=True, eq=False, repr=False)
class QueueReads:
    """Event loop only. Nothing is noted of who reads, but for the bytes that come from the medium."""

    store: MessageStore
    clock: Clock
    cold: ColdReads
    # The log's sync must find a helper thread free, however many replay yesterday: they read by turns.
    _cold_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COLD_AT_ONCE))
    _now: Callable[[], float] = field(init=False)

    def __post_init__(self) -> None:
        self._now = self.clock.monotonic

    def find(self, search: Search, wanted: Wanted, config: BrokerConfig) -> SearchResult:
        """Find the next records that are wanted. Only what is in the page cache is looked at for an expression."""
        if wanted.record_filter is not None:
            return find_matches(self.store.reader, search, wanted.record_filter, self._now)
        return SearchResult(
            self.store.reader.select(
                search.topic,
                search.queue_id,
                search.offset,
                max_count=search.max_count,
                max_bytes=search.max_bytes,
                tag_codes=wanted.tag_codes,
                deep=config.max_filter_message_size // QUEUE_ENTRY_BYTES,
            )
        )

    def is_cold(self, search: Search) -> bool:
        """Return whether the queue's entries are not in memory. Not asked near the queue's end."""
        queue, offset = self.store.queues.get(search.topic, search.queue_id), search.offset
        if queue is None or not queue.min_offset <= offset < queue.readable_end - search.max_count:
            return False
        return not queue.is_resident(offset, SCAN_ENTRIES)

    async def find_cold(self, search: Search, wanted: Wanted, config: BrokerConfig) -> SearchResult:
        """Find the next records after a helper thread has fetched the queue's entries."""
        async with self._cold_turn:
            selection = await self.store.select(
                search.topic,
                search.queue_id,
                search.offset,
                max_count=search.max_count,
                max_bytes=search.max_bytes,
                tag_codes=wanted.tag_codes,
            )
        return SearchResult(selection) if wanted.record_filter is None else self.find(search, wanted, config)

    async def match_cold(self, search: Search, wanted: Wanted, unread: Selection, config: BrokerConfig) -> Selection:
        """Find matches of an expression among records that have to come from the medium first."""
        assert wanted.record_filter is not None
        stretch = within_disk_limits(unread, config)
        async with self._cold_turn:
            records = await self.store.read(stretch)
        matches = Matches(search)
        full = matches.take(records, wanted.record_filter, self._now, self._now() + SEARCH_S)
        return selection_of(stretch, matches, stretch.next_offset if full is None else full)

    async def read_cold(self, group: str, selection: Selection, config: BrokerConfig) -> ColdRead:
        """Read from the medium, in a helper thread, as much as may come from there at once."""
        selection = within_disk_limits(selection, config)
        size = sum(one.size for one in selection.ranges)
        wait_s = self.cold.wait_s(group, size, config, self._now(), self.clock.now_ms())
        if wait_s:
            await self.clock.sleep(min(wait_s, MOST_WAIT_S))
        if wait_s > MOST_WAIT_S:
            at = selection.ranges[0].queue_offset
            later = Selection(selection.status, (), at, selection.min_offset, selection.max_offset)
            return ColdRead(later, None)
        async with self._cold_turn:
            return ColdRead(selection, await self.store.read(selection))


def within_disk_limits(selection: Selection, config: BrokerConfig) -> Selection:
    """Return as much of a selection as may come from disk at once."""
    kept: list[Range] = []
    size = 0
    for one in selection.ranges:
        size += one.size
        too_many = len(kept) >= config.max_transfer_count_on_message_in_disk
        if kept and (too_many or size > config.max_transfer_bytes_on_message_in_disk):
            return Selection(selection.status, kept, one.queue_offset, selection.min_offset, selection.max_offset)
        kept.append(one)
    return selection
