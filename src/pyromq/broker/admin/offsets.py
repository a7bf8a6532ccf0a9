"""Administration of offsets (requests 43, 222, 223, 314): shown, set back or forward by hand and by time, cloned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ... import logs
from ...errors import CallFailed, RequestRefused
from ...model.boundary import Boundary
from ...model.client_info import Language
from ...model.codes import ResponseCode
from ...model.names import group_fault
from ...protocol.bodies.body import decode_body, encode_body
from ...protocol.bodies.keyed import ByQueue
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
from ...transport.dispatch import Reply, Request, RequestOf
from ..clients.consumers import ConsumerGroup
from ..clients.subscriptions import Member
from .view import BrokerView, check

log = logs.get("pyromq.broker")

STATUS_S = 5.0


@dataclass(slots=True, eq=False, repr=False)
class OffsetAdmin(BrokerView):
    """Event loop only. `saved` hands the offsets to the disk and returns once they are there."""

    saved: Callable[[], Awaitable[None]]

    async def show_all(self, request: Request) -> Reply:
        """Answer 43. The version is that of the beginning: who asks by it again gets what changed meanwhile."""
        version, offsets, pulled = self.offsets.version, self.offsets.all(), self.offsets.all_pulled()
        table: dict[str, dict[int, int]] = {}
        async for key in self.slices.each(list(offsets)):
            if key in offsets:  # not dropped between two slices
                table[key] = dict(offsets[key])
        pulled_table: dict[str, dict[int, int]] = {}
        async for key in self.slices.each(list(pulled)):
            if key in pulled:
                pulled_table[key] = {queue_id: one.value for queue_id, one in pulled[key].items()}
        body = ConsumerOffsetSerializeWrapper(
            data_version=version,
            group_topic_map=self.offsets.group_topics(),
            offset_table=table,
            pull_offset_table=pulled_table,
        )
        return Reply(body=body)

    # --- 222 ------------------------------------------------------------------------------------------------------

    async def reset(self, request: RequestOf[ResetOffset, None]) -> Reply:
        """Answer where each queue was set to. The next pull is sent there, or, the old way, the clients are told."""
        header = request.header
        topic = self.topics.find(header.topic)
        if topic is None:
            raise RequestRefused(f"Topic {header.topic} does not exist", ResponseCode.TOPIC_NOT_EXIST)
        queues = [header.queue_id] if header.queue_id >= 0 else list(range(topic.read_queue_nums))
        if not queues:
            raise RequestRefused(f"No queues to reset: topic {header.topic} has none to read")
        if header.queue_id >= topic.read_queue_nums:
            raise RequestRefused(f"topic {header.topic} has no queue {header.queue_id} to read")
        if not self.live.config.use_server_side_reset_offset:
            return await self._notify_clients(header, queues)
        if header.group not in self.groups:
            raise RequestRefused(f"Group {header.group} does not exist", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        targets = {queue_id: await self._target(header, queue_id) async for queue_id in self.slices.each(queues)}
        body = ResetOffsetBody()
        async for queue_id, offset in self.slices.each(targets.items()):
            self.offsets.reset(header.topic, header.group, queue_id, offset)
            body.offset_table[self.queue(header.topic, queue_id)] = offset
        await self.saved()
        log.warning("offsets reset", group=header.group, topic=header.topic, peer=request.peer.address)
        return Reply(body=body)

    async def _target(self, header: ResetOffset, queue_id: int) -> int:
        low, high = self.offset_range(header.topic, queue_id)
        if header.queue_id >= 0 and header.offset is not None and header.offset != -1:
            if not low <= header.offset <= high + 1:
                raise RequestRefused(f"Target offset {header.offset} not in consume queue range [{low}-{high}]")
            return header.offset
        return await self._by_time(header.topic, queue_id, header.timestamp)

    async def _by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp < 0:
            return self.offset_range(topic, queue_id)[1]
        return await self.store.ask(
            lambda: self.store.reader.offset_by_time(topic, queue_id, timestamp, Boundary.LOWER)
        )

    def _body(self, topic: str, targets: dict[int, int]) -> ResetOffsetBody:
        table = ByQueue({self.queue(topic, queue_id): offset for queue_id, offset in targets.items()})
        return ResetOffsetBody(offset_table=table)

    async def _notify_clients(self, header: ResetOffset, queues: list[int]) -> Reply:
        """Reset as 4.9 does it: every online client is notified by request 220 and moves by itself."""
        targets = {}
        async for queue_id in self.slices.each(queues):
            found = await self._by_time(header.topic, queue_id, header.timestamp)
            now = self.offsets.find(header.topic, header.group, queue_id)
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
                    broker_name=self.live.config.broker_name, queue_id=queue_id, topic=header.topic, offset=offset
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
        group = self.consumers.find(name)
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
        check(group_fault(header.dest_group))
        topics = [header.topic] if (header.topic or "").strip() else self.offsets.topics_of(header.src_group)
        for topic in topics:
            if topic is None or topic not in self.topics:
                continue
            if not header.offline and not self.is_of_interest(header.src_group, topic):
                continue
            self.offsets.clone(header.src_group, header.dest_group, topic)
        await self.saved()
        return Reply()
