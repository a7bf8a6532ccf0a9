"""A group's own offsets: asked for and committed by its clients (requests 14 and 15)."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import Live
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from ...store.message_store import MessageStore
from ...transport.dispatch import Answer, Reply, RequestOf
from ..config import BrokerConfig
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics


@dataclass(slots=True, eq=False)
class OffsetHandlers:
    """Event loop only. `memory_bytes` is the machine's: what fits into a share of it counts as still in memory."""

    live: Live[BrokerConfig]
    topics: Topics
    groups: Groups
    offsets: Offsets
    store: MessageStore
    memory_bytes: int

    def query(self, request: RequestOf[QueryConsumerOffset, None]) -> Answer:
        """Answer 14. A group that never committed begins at 0 if everything is still there, else the client decides."""
        header = request.header
        offset = self.offsets.find(header.topic, header.consumer_group, header.queue_id)
        return self._begin(header) if offset is None else Reply(header=OffsetAnswer(offset=offset))

    async def _begin(self, header: QueryConsumerOffset) -> Reply:
        wanted = header.set_zero_if_not_found is not False
        if not wanted or not await self.store.ask(lambda: self._has_it_all(header)):
            raise RequestRefused(
                f"Not found, maybe this group consumer boot first: {header.consumer_group} has no offset of "
                f"{header.topic} queue {header.queue_id}",
                ResponseCode.QUERY_NOT_FOUND,
            )
        return Reply(header=OffsetAnswer(offset=0))

    def _has_it_all(self, header: QueryConsumerOffset) -> bool:
        """Return whether the queue begins at 0 with a message so young that reading it would not touch the disk."""
        queue = self.store.queues.get(header.topic, header.queue_id)
        if queue is None or queue.min_offset > 0 or queue.readable_end == 0:
            return False
        first = queue.entry_at(0)
        share = self.live.config.access_message_in_memory_max_ratio / 100
        return first is not None and self.store.commit_log.end - first.position <= self.memory_bytes * share

    def update(self, request: RequestOf[UpdateConsumerOffset, None]) -> Reply:
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
        if self.offsets.has_reset(header.topic, header.consumer_group, header.queue_id):
            return Reply(remark="Offset has been previously reset")
        if not self.offsets.commit(header.topic, header.consumer_group, header.queue_id, header.commit_offset):
            most = self.live.config.max_consumer_offsets
            raise RequestRefused(
                f"no room for the offsets of group {header.consumer_group} on topic {header.topic}: the limit "
                f"(maxConsumerOffsets) is {most} pairs of group and topic",
                ResponseCode.SYSTEM_BUSY,
            )
        return Reply()

    def _has_queue(self, topic: TopicConfig, header: UpdateConsumerOffset) -> bool:
        """Return whether the topic has, or had, the queue: readers of a topic that was made smaller go on."""
        return (
            header.queue_id < max(topic.read_queue_nums, topic.write_queue_nums)
            or self.store.queues.get(header.topic, header.queue_id) is not None
            or header.queue_id in self.offsets.queues(header.topic, header.consumer_group)
        )
