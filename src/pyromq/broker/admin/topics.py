"""Administration of topics (requests 17, 18, 21, 215, 305, 351). A change is answered once it is on disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from ... import logs
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...model.topic import Perm
from ...protocol.bodies.topics import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicList,
)
from ...protocol.headers.admin import CreateTopic, GetAllTopicConfig, GetAllTopicConfigAnswer
from ...protocol.headers.header import RpcHeader, TopicName
from ...transport.dispatch import Reply, Request, RequestOf
from ..metadata.attributes import MESSAGE_TYPE, TOPIC_ATTRIBUTES, alter, parse_changes
from .view import MOST_QUEUES, BrokerView, change, check, illegal

log = logs.get("pyromq.broker")

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
PERMISSIONS = range(Perm.INHERIT | Perm.READ_WRITE | Perm.PRIORITY + 1)


@dataclass(slots=True, eq=False, repr=False)
class TopicAdmin(BrokerView):
    """Event loop only. `saved` and `offsets_saved` return once the table is on disk, or raise RequestRefused;
    `forget` and `remove_queues` are called with each deleted topic."""

    saved: Callable[[], Awaitable[None]]
    offsets_saved: Callable[[], Awaitable[None]]
    forget: Callable[[str], None]
    remove_queues: Callable[[str], None]

    async def _all_saved(self) -> None:
        """Wait for both tables: groups get offsets of new queues, and lose those of deleted ones."""
        await self.offsets_saved()
        await self.saved()

    # --- 17, 18 ---------------------------------------------------------------------------------------------------

    async def create(self, request: RequestOf[CreateTopic, None]) -> Reply:
        header = request.header
        wanted = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=parse_changes(header.attributes),
        )
        before, after = self.topics.find(header.topic), self._checked(wanted, header.force)
        self.topics.put(after)
        await self._all_saved()
        return Reply(noted=change(before, after))

    async def create_many(self, request: RequestOf[RpcHeader, CreateTopicListRequestBody]) -> Reply:
        """Create all or none: what is wrong with one is said before the first is made."""
        wanted = request.body.topic_config_list
        if not wanted:
            raise illegal("topicConfigList is empty")
        checked = [self._checked(one, force=False) async for one in self.slices.each(wanted)]
        async for topic in self.slices.each(checked):
            self.topics.put(topic)
        await self._all_saved()
        return Reply(noted={"topics": [one.topic_name for one in checked]})

    def _checked(self, wanted: TopicConfig, force: bool) -> TopicConfig:
        """Return the topic as it will be, its attributes altered from what they were."""
        name = wanted.topic_name
        self._check_name(name)
        before = self.topics.find(name)
        if wanted.topic_filter_type not in FILTER_TYPES:
            raise RequestRefused(
                f"topicFilterType {wanted.topic_filter_type!r} of topic {name}: it is one of {', '.join(FILTER_TYPES)}"
            )
        if wanted.perm not in PERMISSIONS:
            raise illegal(f"perm {wanted.perm} of topic {name}: 2 is write, 4 read, 6 both, 1 more is inherited")
        for what, count in (("readQueueNums", wanted.read_queue_nums), ("writeQueueNums", wanted.write_queue_nums)):
            if not 0 <= count <= MOST_QUEUES:
                raise illegal(f"{what} {count} of topic {name}: it must be from 0 to {MOST_QUEUES}")
        changes = wanted.attributes
        if changes.get(f"+{MESSAGE_TYPE}") == "MIXED" and not self.live.config.enable_mixed_message_type:
            raise illegal("MIXED message type is not supported: set enableMixedMessageType=true to allow it")
        attributes = alter(TOPIC_ATTRIBUTES, None if before is None else before.attributes, changes)
        topic = msgspec.structs.replace(wanted, attributes=attributes)
        if before is not None:
            self._check_order(before, topic, force)
        return topic

    def _check_order(self, before: TopicConfig, after: TopicConfig, force: bool) -> None:
        """Refuse another number of queues while messages wait: a key's queue follows from it, so its order is lost."""
        if force or not before.order or before.write_queue_nums == after.write_queue_nums:
            return
        if waiting := self._unconsumed(before):
            name, now, then = before.topic_name, before.write_queue_nums, after.write_queue_nums
            raise illegal(
                f"topic {name} is ordered, and {waiting} messages are not consumed by every group: from {now} to "
                f"{then} queues, keys move to other queues and what is under way may be consumed out of order; wait "
                f"until all is consumed, or say: pyromq topic update {name} --queues {then} --move-keys (force=true)"
            )

    def _unconsumed(self, topic: TopicConfig) -> int:
        """Return how many messages not every group of the topic has consumed. Without a group all of them count."""
        name = topic.topic_name
        groups, count = self.offsets.groups_of(name), 0
        for queue_id in range(max(topic.write_queue_nums, topic.read_queue_nums)):
            first, end = self.offset_range(name, queue_id)
            done = min((self.offsets.find(name, group, queue_id) or 0 for group in groups), default=0)
            count += max(0, end - max(first, done))
        return count

    def _check_name(self, name: str) -> None:
        check(names.topic_fault(name))
        if self.live.config.validate_system_topic_when_update_topic and self.topics.is_system(name):
            raise illegal(f"The topic[{name}] is conflict with system topic: it is the broker's own")

    # --- 215 ------------------------------------------------------------------------------------------------------

    async def delete(self, request: RequestOf[TopicName, None]) -> Reply:
        """Delete a topic. Its queues and offsets go too; its records leave the log when they expire.

        The offsets are gone from the disk before the queues: a kill at no moment leaves offsets of queues that begin
        anew, whose first messages would be skipped.
        """
        name = request.header.topic
        if not name.strip():
            raise illegal("The specified topic is blank.")
        self._check_name(name)
        doomed, before = [name], self.topics.find(name)
        if self.live.config.clear_retry_topic_when_delete_topic:
            for group in self.offsets.groups_of(name):
                doomed += [f"{names.RETRY_PREFIX}{group}+{name}", f"{names.RETRY_PREFIX}{group}_{name}"]
        for topic in doomed:
            self.offsets.drop_topic(topic)
        with suppress(RequestRefused):  # a disk that is full still is below, unless the queues made room
            await self.offsets_saved()
        for topic in doomed:
            if self.topics.delete(topic):
                log.info("topic deleted", topic=topic, peer=request.peer.address)
            self.offsets.drop_topic(topic)
            self.remove_queues(topic)
            self.forget(topic)
        await self._all_saved()
        return Reply(noted=change(before, None) | {"deleted": doomed})

    # --- 21, 305, 351 ---------------------------------------------------------------------------------------------

    async def get_all(self, request: RequestOf[GetAllTopicConfig, None]) -> Reply:
        """Answer the whole table, or a page of it: slaves ask for pages, tools for everything."""
        header = request.header
        topics = self.topics.page(header.data_version, header.topic_seq, header.max_topic_num)
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=self.topics.version, topic_config_table=topics)
        count = GetAllTopicConfigAnswer(total_topic_num=len(self.topics))
        return Reply(header=count, body=wrapper)

    def get(self, request: RequestOf[TopicName, None]) -> Reply:
        name = request.header.topic
        topic = self.topics.find(name)
        if topic is None:
            raise RequestRefused(f"No topic in this broker. topic: {name}", ResponseCode.TOPIC_NOT_EXIST)
        body = msgspec.convert(msgspec.to_builtins(topic), TopicConfigAndQueueMapping)
        return Reply(body=body)

    def system_topics(self, request: Request) -> Reply:
        return Reply(body=TopicList(topic_list=self.topics.system_names()))
