"""Single messages by key, unique id or place in the log (requests 12 and 33), and what a queue holds (29 to 32)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...config import Live
from ...errors import RequestRefused
from ...model.boundary import Boundary
from ...model.codes import ResponseCode
from ...protocol.access import Action
from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.headers.header import TopicQueue
from ...protocol.headers.offsets import GetEarliestMsgStoretimeAnswer, GetMaxOffset, OffsetAnswer, SearchOffset
from ...protocol.headers.pull import QueryMessage, QueryMessageAnswer, ViewMessage
from ...protocol.properties import decode_properties
from ...protocol.record import encode_record
from ...store.layout import QueueEntry
from ...store.log.reader import KeyQuery
from ...store.message_store import MessageStore
from ...transport.dispatch import Reply, RequestOf
from ...transport.turns.slices import Slices
from ..config import BrokerConfig
from ..filters.filters import RecordFilter, codes_of, is_by_tags
from ..reading.record_rights import check_record

TAGS_INDEX = "T"
_NO_INDEX = QueryMessageAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0)


class MessageQueries:
    """Event loop only. A queue that was never written is an empty one, as in Java."""

    def __init__(self, live: Live[BrokerConfig], store: MessageStore) -> None:
        self._live = live
        self._store = store

    async def by_key(self, request: RequestOf[QueryMessage, None]) -> Reply:
        header = request.header
        config = self._live.config
        limit = config.default_query_max_num if header.unique_key_query else header.max_num
        query = KeyQuery(
            header.topic,
            header.key,
            begin=header.begin_timestamp,
            end=header.end_timestamp,
            limit=min(limit, config.max_msgs_num_batch),
            tag=header.index_type == TAGS_INDEX,
        )
        records = await self._store.by_key(query)
        if not records:
            raise RequestRefused(
                f"can not find message, maybe time range not correct: nothing with key {header.key!r} in topic "
                f"{header.topic} between {header.begin_timestamp} and {header.end_timestamp}",
                ResponseCode.QUERY_NOT_FOUND,
                _NO_INDEX.to_fields(),
            )
        body = b"".join(encode_record(record) for record in records)
        return Reply(header=self._index_state(), body=body)

    def _index_state(self) -> QueryMessageAnswer:
        files = self._store.index.files if self._store.index is not None else ()
        if not files:
            return _NO_INDEX
        newest = files[-1].tail
        return QueryMessageAnswer(
            index_last_update_timestamp=newest.end_time, index_last_update_phyoffset=newest.end_position
        )

    async def by_place(self, request: RequestOf[ViewMessage, None]) -> Reply:
        header = request.header
        record = await self._store.ask(lambda: self._store.reader.record_at(header.offset))
        if record is None:
            raise RequestRefused(
                f"can not find message by offset {header.offset}: no record starts there, the log holds "
                f"{self._store.commit_log.start} to {self._store.readable.value}"
            )
        check_record(request.rights, record, Action.SUB, Action.GET)
        return Reply(body=encode_record(record))

    # --- queues ---------------------------------------------------------------------------------------------------

    def _range(self, header: GetMaxOffset | TopicQueue) -> tuple[int, int]:
        queue = self._store.queues.get(header.topic, header.queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.readable_end)

    def max_offset(self, request: RequestOf[GetMaxOffset, None]) -> Reply:
        return Reply(header=OffsetAnswer(offset=self._range(request.header)[1]))

    def min_offset(self, request: RequestOf[TopicQueue, None]) -> Reply:
        return Reply(header=OffsetAnswer(offset=self._range(request.header)[0]))

    async def search(self, request: RequestOf[SearchOffset, None]) -> Reply:
        header = request.header
        boundary = header.boundary_type or Boundary.LOWER
        offset = await self._store.ask(
            lambda: self._store.reader.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
        )
        return Reply(header=OffsetAnswer(offset=offset))

    async def earliest_time(self, request: RequestOf[TopicQueue, None]) -> Reply:
        header = request.header
        first, _ = self._range(header)
        time = await self._store.ask(lambda: self._store.reader.store_time(header.topic, header.queue_id, first))
        return Reply(header=GetEarliestMsgStoretimeAnswer(timestamp=time))


async def entry_matches(
    store: MessageStore,
    entries: Sequence[QueueEntry],
    wanted: SubscriptionData | None,
    record_filter: RecordFilter | None,
    slices: Slices,
) -> list[bool]:
    """Return which entries match a group's subscription, as a pull would pick them (request 321).

    Nothing matches for a group that is not online, or whose expression is not known.
    """
    if wanted is not None and is_by_tags(wanted.expression_type):
        codes = codes_of(wanted)
        return [codes is None or one.tag_code in codes for one in entries]
    if wanted is None or record_filter is None:
        return [False] * len(entries)
    found = []
    async for one in slices.each(entries):
        record = await store.ask(partial(store.reader.record_at, one.position))
        found.append(record is not None and record_filter.accepts_properties(decode_properties(record.properties)))
    return found
