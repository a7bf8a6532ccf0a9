"""A group's own offsets: asked for and committed by its clients (requests 14 and 15)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...config import Live
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...model.group import ConsumeFromWhere, ConsumeType
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from ...store.message_store import MessageStore
from ...transport.dispatch import Answer, Reply, Request, RequestOf, await_answer
from ..config import BrokerConfig
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics
from ..reading.popped import PoppedLanes
from .consumers import Consumers


@dataclass(slots=True, eq=False, repr=False)
class OffsetHandlers:
    """Event loop only. `memory_bytes` is the machine's: what fits into a share of it counts as still in memory.
    `saved` returns once the offsets are on disk, or raises RequestRefused."""

    live: Live[BrokerConfig]
    topics: Topics
    groups: Groups
    offsets: Offsets
    consumers: Consumers
    store: MessageStore
    memory_bytes: int
    saved: Callable[[], Awaitable[None]]
    pops: PoppedLanes | None = None  # queues that groups pop

    def query(self, request: RequestOf[QueryConsumerOffset, None]) -> Answer:
        """Answer 14. A group that never committed begins at 0 if everything is still there, else as `_start` says."""
        header = request.header
        place = (header.topic, header.consumer_group, header.queue_id)
        leaving = None if self.pops is None else self.pops.leave_for(request.peer, *place)
        return self._query(request) if leaving is None else self._after(leaving, self._query, request)

    async def _after(
        self, leaving: Awaitable[None], act: Callable[[Request], Answer], request: Request
    ) -> Reply | None:
        await leaving
        return await await_answer(act(request))

    def _query(self, request: RequestOf[QueryConsumerOffset, None]) -> Answer:
        header = request.header
        offset = self.offsets.find(header.topic, header.consumer_group, header.queue_id)
        return self._begin(request) if offset is None else Reply(header=OffsetAnswer(offset=offset))

    async def _begin(self, request: RequestOf[QueryConsumerOffset, None]) -> Reply:
        header = request.header
        start = None
        if header.set_zero_if_not_found is not False:
            start = 0 if await self.store.ask(lambda: self._has_it_all(header)) else self._start(request)
        if start is None:
            raise RequestRefused(
                f"Not found, maybe this group consumer boot first: {header.consumer_group} has no offset of "
                f"{header.topic} queue {header.queue_id}",
                ResponseCode.QUERY_NOT_FOUND,
            )
        return Reply(header=OffsetAnswer(offset=start))

    def _start(self, request: RequestOf[QueryConsumerOffset, None]) -> int | None:
        """Return where a consumer of the group begins that asks on its own connection; None: it decides by itself.

        Java's clients would ask for the queue's end next and miss what is stored between the two answers. A queue
        without messages begins at 0, whatever they want. Where they want the end, this is it, and it becomes the
        group's offset. Pull consumers show callers whether there is an offset, so they get none that nobody committed.
        """
        header = request.header
        group, topic = self.consumers.find(header.consumer_group), self.topics.find(header.topic)
        member = None if group is None else group.members.get(request.peer)
        if group is None or member is None or topic is None or not self._has_queue(topic, header):
            return None
        queue = self.store.queues.get(header.topic, header.queue_id)
        end = 0 if queue is None else queue.readable_end
        wants_end = member.from_where is ConsumeFromWhere.LAST_OFFSET and not names.is_retry(header.topic)
        if wants_end and group.consume_type is ConsumeType.PASSIVELY:
            self.offsets.commit(header.topic, header.consumer_group, header.queue_id, end)
            return end
        return 0 if end == 0 else None

    def _has_it_all(self, header: QueryConsumerOffset) -> bool:
        """Return whether the queue begins at 0 with a message so young that reading it would not touch the disk."""
        queue = self.store.queues.get(header.topic, header.queue_id)
        if queue is None or queue.min_offset > 0 or queue.readable_end == 0:
            return False
        first = queue.entry_at(0)
        share = self.live.config.access_message_in_memory_max_ratio / 100
        return first is not None and self.store.commit_log.end - first.position <= self.memory_bytes * share

    def update(self, request: RequestOf[UpdateConsumerOffset, None]) -> Answer:
        """Answer 15. An administrator's change is on disk by then; what members commit is written every few seconds."""
        header = request.header
        if header.consumer_group not in self.groups:
            raise RequestRefused(f"Group {header.consumer_group} not exist!", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        topic = self.topics.find(header.topic)
        if topic is None:
            raise RequestRefused(f"Topic {header.topic} not exist!", ResponseCode.TOPIC_NOT_EXIST)
        if header.queue_id < 0 or header.commit_offset < 0:
            raise RequestRefused(
                f"queueId {header.queue_id} and commitOffset {header.commit_offset} must not be negative",
                ResponseCode.INVALID_PARAMETER,
            )
        if not self._has_queue(topic, header):
            raise RequestRefused(
                f"queueId {header.queue_id} does not exist: topic {header.topic} has "
                f"{max(topic.read_queue_nums, topic.write_queue_nums)} queues",
                ResponseCode.INVALID_PARAMETER,
            )
        place = (header.topic, header.consumer_group, header.queue_id)
        leaving = None if self.pops is None else self.pops.leave(*place)
        return self._update(request) if leaving is None else self._after(leaving, self._update, request)

    def _update(self, request: RequestOf[UpdateConsumerOffset, None]) -> Answer:
        header = request.header
        if self.offsets.has_reset(header.topic, header.consumer_group, header.queue_id):
            return Reply(remark="Offset has been previously reset")
        if not self.offsets.commit(header.topic, header.consumer_group, header.queue_id, header.commit_offset):
            most = self.live.config.max_consumer_offsets
            raise RequestRefused(
                f"no room for the offsets of group {header.consumer_group} on topic {header.topic}: the limit "
                f"(maxConsumerOffsets) is {most} pairs of group and topic",
                ResponseCode.SYSTEM_BUSY,
            )
        group = self.consumers.find(header.consumer_group)
        is_member = group is not None and request.peer in group.members
        return Reply() if is_member or request.command.is_oneway else self._answer_saved()

    async def _answer_saved(self) -> Reply:
        await self.saved()
        return Reply()

    def _has_queue(self, topic: TopicConfig, header: QueryConsumerOffset | UpdateConsumerOffset) -> bool:
        """Return whether the topic has, or had, the queue: readers of a topic that was made smaller go on."""
        return (
            header.queue_id < max(topic.read_queue_nums, topic.write_queue_nums)
            or self.store.queues.get(header.topic, header.queue_id) is not None
            or header.queue_id in self.offsets.queues(header.topic, header.consumer_group)
        )
