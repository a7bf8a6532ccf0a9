"""Administration of offsets (requests 43, 222, 223, 314): shown, set back or forward by hand and by time, cloned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ... import logs
from ...config import Live
from ...errors import CallFailed, RequestRefused
from ...model.boundary import Boundary
from ...model.client_info import Language
from ...model.codes import ResponseCode
from ...model.names import group_fault
from ...protocol.bodies.body import decode_body, encode_body
from ...protocol.bodies.keyed import ByQueue, MessageQueue
from ...protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from ...protocol.command import ONEWAY_FLAG, Command
from ...protocol.headers.offsets import CloneGroupOffset, GetConsumerStatus, ResetOffset
from ...protocol.json import Dialect
from ...protocol.requests import RequestCode
from ...store.message_store import MessageStore
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.turns.slices import Slices
from ..clients.consumers import ConsumerGroup, Consumers, Member
from ..config import BrokerConfig
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics

log = logs.get("pyromq.broker")

STATUS_S = 5.0


class OffsetAdmin:
    """Event loop only. `saved` hands the offsets to the disk and returns once they are there."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        consumers: Consumers,
        store: MessageStore,
        saved: Callable[[], Awaitable[None]],
        slices: Slices,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._store = store
        self._saved = saved
        self._slices = slices

    async def show_all(self, request: Request) -> Reply:
        """Answer 43. The version is that of the beginning: who asks by it again gets what changed meanwhile."""
        version, offsets = self._offsets.version, self._offsets.all()
        table: dict[str, dict[int, int]] = {}
        async for key in self._slices.each(list(offsets)):
            if key in offsets:  # not dropped between two slices
                table[key] = dict(offsets[key])
        body = ConsumerOffsetSerializeWrapper(
            data_version=version, group_topic_map=self._offsets.group_topics(), offset_table=table
        )
        return Reply(body=body)

    # --- 222 ------------------------------------------------------------------------------------------------------

    async def reset(self, request: RequestOf[ResetOffset, None]) -> Reply:
        """Answer where each queue was set to. The next pull is sent there, or, the old way, the clients are told."""
        header = request.header
        topic = self._topics.find(header.topic)
        if topic is None:
            raise RequestRefused(f"Topic {header.topic} does not exist", ResponseCode.TOPIC_NOT_EXIST)
        queues = [header.queue_id] if header.queue_id >= 0 else list(range(topic.read_queue_nums))
        if not queues:
            raise RequestRefused(f"No queues to reset: topic {header.topic} has none to read")
        if header.queue_id >= topic.read_queue_nums:
            raise RequestRefused(f"topic {header.topic} has no queue {header.queue_id} to read")
        if not self._live.config.use_server_side_reset_offset:
            return await self._notify_clients(header, queues)
        if header.group not in self._groups:
            raise RequestRefused(f"Group {header.group} does not exist", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        targets = {queue_id: await self._target(header, queue_id) async for queue_id in self._slices.each(queues)}
        body = ResetOffsetBody()
        async for queue_id, offset in self._slices.each(targets.items()):
            self._offsets.reset(header.topic, header.group, queue_id, offset)
            body.offset_table[self._queue(header.topic, queue_id)] = offset
        await self._saved()
        log.warning("offsets reset", group=header.group, topic=header.topic, peer=request.peer.address)
        return Reply(body=body)

    async def _target(self, header: ResetOffset, queue_id: int) -> int:
        low, high = self._range(header.topic, queue_id)
        if header.queue_id >= 0 and header.offset is not None and header.offset != -1:
            if not low <= header.offset <= high + 1:
                raise RequestRefused(f"Target offset {header.offset} not in consume queue range [{low}-{high}]")
            return header.offset
        return await self._by_time(header.topic, queue_id, header.timestamp)

    async def _by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp < 0:
            return self._range(topic, queue_id)[1]
        return await self._store.ask(
            lambda: self._store.reader.offset_by_time(topic, queue_id, timestamp, Boundary.LOWER)
        )

    def _range(self, topic: str, queue_id: int) -> tuple[int, int]:
        queue = self._store.queues.get(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.readable_end)

    def _body(self, topic: str, targets: dict[int, int]) -> ResetOffsetBody:
        table = ByQueue({self._queue(topic, queue_id): offset for queue_id, offset in targets.items()})
        return ResetOffsetBody(offset_table=table)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(broker_name=self._live.config.broker_name, queue_id=queue_id, topic=topic)

    async def _notify_clients(self, header: ResetOffset, queues: list[int]) -> Reply:
        """Reset as 4.9 does it: every online client is notified by request 220 and moves by itself."""
        targets = {}
        async for queue_id in self._slices.each(queues):
            found = await self._by_time(header.topic, queue_id, header.timestamp)
            now = self._offsets.find(header.topic, header.group, queue_id)
            if now is None:
                raise RequestRefused(f"THe consumer group <{header.group}> not exist")  # Java's words and mqadmin's
            targets[queue_id] = found if header.is_force or found < now else now
        for member in self._online(header.group).members.values():
            self._send_reset(member, header, targets)
        return Reply(body=self._body(header.topic, targets))

    def _send_reset(self, member: Member, header: ResetOffset, targets: dict[int, int]) -> None:
        if member.peer.language is Language.CPP:
            queues = [
                MessageQueueForC(
                    broker_name=self._live.config.broker_name, queue_id=queue_id, topic=header.topic, offset=offset
                )
                for queue_id, offset in targets.items()
            ]
            body = encode_body(ResetOffsetBodyForC(offset_table=queues))
        else:
            body = encode_body(self._body(header.topic, targets), Dialect.JAVA)
        fields = ResetOffset(
            group=header.group, topic=header.topic, timestamp=header.timestamp, is_force=header.is_force
        ).to_fields()
        member.peer.send(
            Command(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, flag=ONEWAY_FLAG, fields=fields, body=body)
        )

    # --- 223 ------------------------------------------------------------------------------------------------------

    async def status(self, request: RequestOf[GetConsumerStatus, None]) -> Reply:
        """Answer what offsets the group's clients themselves hold; one that does not answer is left out."""
        header = request.header
        group = self._online(header.group)
        members = [
            member
            for member in group.members.values()
            if not header.client_addr or header.client_addr in (member.client_id, member.peer.address)
        ]
        answers = await asyncio.gather(*(self._ask(member, header) for member in members))
        table = {member.client_id: one for member, one in zip(members, answers, strict=True) if one is not None}
        return Reply(body=GetConsumerStatusBody(consumer_table=table))

    async def _ask(self, member: Member, header: GetConsumerStatus) -> ByQueue[int] | None:
        fields = GetConsumerStatus(topic=header.topic, group=header.group).to_fields()
        try:
            answer = await member.peer.call(
                Command(code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields=fields), STATUS_S
            )
        except CallFailed as fault:
            log.warning("client did not tell its offsets", client=member.client_id, why=str(fault))
            return None
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        return decode_body(GetConsumerStatusBody, answer.body).message_queue_table

    def _online(self, name: str) -> ConsumerGroup:
        group = self._consumers.find(name)
        if group is None:
            raise RequestRefused(
                f"Consumer not online, so can not reset offset or show its status: group {name} has no member",
                ResponseCode.CONSUMER_NOT_ONLINE,
            )
        return group

    # --- 314 ------------------------------------------------------------------------------------------------------

    async def clone(self, request: RequestOf[CloneGroupOffset, None]) -> Reply:
        """Copy the offsets of one topic, or (where Java copies nothing) of all topics of the source."""
        header = request.header
        if (fault := group_fault(header.dest_group)) is not None:
            raise RequestRefused(fault, ResponseCode.INVALID_PARAMETER)
        topics = [header.topic] if (header.topic or "").strip() else self._offsets.topics_of(header.src_group)
        members = self._consumers.find(header.src_group)
        for topic in topics:
            if topic is None or topic not in self._topics:
                continue
            if (
                not header.offline
                and members is not None
                and members.subscriptions
                and topic not in members.subscriptions
            ):
                continue
            self._offsets.clone(header.src_group, header.dest_group, topic)
        await self._saved()
        return Reply()
