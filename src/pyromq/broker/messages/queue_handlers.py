"""What a queue holds: its first and last offset, offsets by time, age (requests 29 to 32)."""

from __future__ import annotations

from ...model.boundary import Boundary
from ...protocol.headers.offsets import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeAnswer,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    SearchOffset,
)
from ...store.message_store import MessageStore
from ...transport.dispatch import Reply, RequestOf


class QueueHandlers:
    """Event loop only. A queue that was never written is an empty one, as in Java."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def max_offset(self, request: RequestOf[GetMaxOffset, None]) -> Reply:
        header = request.header
        queue = self._store.queues.get(header.topic, header.queue_id)
        return Reply(header=OffsetAnswer(offset=0 if queue is None else queue.readable_end))

    def min_offset(self, request: RequestOf[GetMinOffset, None]) -> Reply:
        header = request.header
        queue = self._store.queues.get(header.topic, header.queue_id)
        return Reply(header=OffsetAnswer(offset=0 if queue is None else queue.min_offset))

    async def search(self, request: RequestOf[SearchOffset, None]) -> Reply:
        header = request.header
        boundary = header.boundary_type or Boundary.LOWER
        offset = await self._store.ask(
            lambda: self._store.reader.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
        )
        return Reply(header=OffsetAnswer(offset=offset))

    async def earliest_time(self, request: RequestOf[GetEarliestMsgStoretime, None]) -> Reply:
        header = request.header
        queue = self._store.queues.get(header.topic, header.queue_id)
        first = 0 if queue is None else queue.min_offset
        time = await self._store.ask(lambda: self._store.reader.store_time(header.topic, header.queue_id, first))
        return Reply(header=GetEarliestMsgStoretimeAnswer(timestamp=time))
