"""Where a consumer begins each of its queues: at the group's offset, else at the first message or where `begin` says.

`begin` is for groups that are new. A queue that appears while a consumer runs, or that has no offset though its group
has one of another queue, is read from its first message: what was sent there before anybody noticed it is not lost.
Push and pull consumers ask for each queue that they take, and then let the offsets that were found be committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ...model import names
from ...model.group import ConsumeFromWhere
from ...protocol.bodies.keyed import MessageQueue
from ..connect.session import Session
from .group_calls import OffsetStore, max_offset, min_offset, offset_at
from .options import ConsumeOptions, PullOptions

AGAIN_S = 1.0  # another member that has just started is about to commit the offsets of all queues
FROM_FIRST = (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.MIN_OFFSET)


class StartOffsets:
    """One for each consumer. Event loop only."""

    def __init__(self, session: Session, store: OffsetStore, options: ConsumeOptions | PullOptions) -> None:
        self._session = session
        self._store = store
        self._options = options
        self._is_broadcast = isinstance(options, ConsumeOptions) and options.broadcast
        self._may_commit = isinstance(options, ConsumeOptions) or options.auto_commit
        self._at_start: dict[str, frozenset[MessageQueue]] = {}  # by topic: its queues when this consumer met it
        self._ends: dict[str, dict[MessageQueue, int] | None] = {}  # by topic; None: the group is not new
        self._asking = asyncio.Lock()
        self._found: dict[MessageQueue, int] = {}  # not committed yet

    def expect(self, topic: str) -> None:
        """Note that the topic does not exist, not yet or no longer: all its queues appear while this consumer runs."""
        self._at_start[topic] = frozenset()

    async def find(self, queue: MessageQueue) -> int:
        """Return where to begin the queue. Error, if its broker cannot be asked."""
        route = await self._session.route(queue.topic)
        at_start = self._at_start.setdefault(queue.topic, frozenset(route.readable))
        known = await self._store.read(queue)
        if known is not None:
            return known
        if self._options.begin_ms is not None:
            return await offset_at(self._session, queue, self._options.begin_ms)
        if names.is_retry(queue.topic) or self._options.begin in FROM_FIRST:
            return await min_offset(self._session, queue)
        if queue in at_start:
            if self._is_broadcast:
                return await max_offset(self._session, queue)
            ends = await self._ends_of_new_group(queue.topic)
            if ends is not None:
                return ends[queue] if queue in ends else await max_offset(self._session, queue)
            await self._session.clock.sleep(AGAIN_S)
            known = await self._store.read(queue)
            if known is not None:
                return known
        first = self._found[queue] = await min_offset(self._session, queue)
        return first

    async def _ends_of_new_group(self, topic: str) -> dict[MessageQueue, int] | None:
        """Return the ends of the topic's queues, as they were at the first call; None if the group is not new."""
        async with self._asking:
            if topic not in self._ends:
                self._ends[topic] = await self._read_ends(topic)
        return self._ends[topic]

    async def _read_ends(self, topic: str) -> dict[MessageQueue, int] | None:
        """Read the ends before the offsets. A member that starts at the same time may commit other ends in between:
        those count then, and if we see none of them, its start is not over, and nothing below our ends was promised."""
        queues = self._at_start[topic]
        ends = await asyncio.gather(*(max_offset(self._session, each) for each in queues), return_exceptions=True)
        if any(isinstance(each, int) for each in (await self._read(queues)).values()):
            return None
        found = {queue: end for queue, end in zip(queues, ends, strict=True) if isinstance(end, int)}
        self._found |= found
        return found

    async def _read(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | BaseException | None]:
        """Return the group's offset of each queue; None where it has none, what failed where that is not known."""
        offsets = await asyncio.gather(*map(self._store.read, queues), return_exceptions=True)
        return dict(zip(queues, offsets, strict=True))

    async def commit(self) -> None:
        """Commit the offsets found since the last call, of queues that still have none: the group was here."""
        found, self._found = self._found, {}
        if found and self._may_commit:
            stored = await self._read(found)
            await self._store.save({queue: offset for queue, offset in found.items() if stored[queue] is None})
