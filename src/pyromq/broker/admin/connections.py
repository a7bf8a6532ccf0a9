"""Who is connected, who consumes what, and questions that are passed on to a client (203, 204, 300, 307, 309, 328, 343,
345)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...access.signatures import SIGNING
from ...errors import CallFailed, CallTimedOut, RequestRefused
from ...model.client_info import Version
from ...model.codes import ResponseCode
from ...model.ids import parse_offset_message_id
from ...protocol.access import Action
from ...protocol.bodies.connections import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
)
from ...protocol.bodies.groups import GroupList
from ...protocol.bodies.topics import TopicList
from ...protocol.command import Command
from ...protocol.headers.admin import QuerySubscriptionByConsumer
from ...protocol.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, GetProducerConnectionList
from ...protocol.headers.header import ConsumerGroupName, GroupName, TopicName
from ...protocol.record import encode_record
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.peer import Peer
from ..clients.popped_subscriptions import PoppedSubscriptions
from ..clients.producers import ConnectedProducer, Producers
from ..reading.record_rights import check_record
from .view import BrokerView

RELAY_S = 10.0


@dataclass(slots=True, eq=False, repr=False)
class ConnectionAdmin(BrokerView):
    """Event loop only."""

    producers: Producers
    popped: PoppedSubscriptions

    # --- who is connected -----------------------------------------------------------------------------------------

    async def consumer_connections(self, request: RequestOf[ConsumerGroupName, None]) -> Reply:
        name = request.header.consumer_group
        group = self.consumers.find(name)
        if group is None:
            raise RequestRefused(f"the consumer group[{name}] not online", ResponseCode.CONSUMER_NOT_ONLINE)
        body = ConsumerConnection(
            connection_set=[_connection(member.peer, member.client_id) for member in group.members.values()],
            consume_from_where=group.from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=dict(group.subscriptions),
        )
        # A group's status is where a conflict of its members is made visible to whoever asks.
        return Reply(body=body, remark="\n".join(self.consumers.conflicts.of_group(name)) or None)

    async def producer_connections(self, request: RequestOf[GetProducerConnectionList, None]) -> Reply:
        name = request.header.producer_group
        members = self.producers.members(name)
        if not members:
            raise RequestRefused(f"the producer group[{name}] not exist")
        connections = [_connection(peer, one.client_id) for peer, one in members.items()]
        return Reply(body=ProducerConnection(connection_set=connections))

    async def all_producers(self, request: Request) -> Reply:
        data = {}
        async for group in self.slices.each(list(self.producers.all())):
            members = self.producers.members(group)
            if members:  # they have not left between two slices
                data[group] = [_producer(peer, one) for peer, one in members.items()]
        return Reply(body=ProducerTableInfo(data=data))

    # --- who consumes what ----------------------------------------------------------------------------------------

    async def groups_of_topic(self, request: RequestOf[TopicName, None]) -> Reply:
        """Answer 300: online now, or with offsets."""
        topic = request.header.topic
        groups = {*self.consumers.groups_on(topic), *self.offsets.groups_of(topic)}
        return Reply(body=GroupList(group_list=await self.slices.in_order(groups)))

    async def topics_of_group(self, request: RequestOf[GroupName, None]) -> Reply:
        topics = self.offsets.topics_of(request.header.group)
        return Reply(body=TopicList(topic_list=topics, broker_addr=self.address))

    def subscription(self, request: RequestOf[QuerySubscriptionByConsumer, None]) -> Reply:
        header = request.header
        group = self.consumers.find(header.group)
        found = None if group is None else group.subscriptions.get(header.topic or "")
        if found is None:
            found = self.popped.find(header.group, header.topic or "", self.live.config.enable_retry_topic_v2)
        body = QuerySubscriptionResponseBody(group=header.group, topic=header.topic, subscription_data=found)
        return Reply(body=body)

    # --- passed on to a client ------------------------------------------------------------------------------------

    async def running_info(self, request: RequestOf[GetConsumerRunningInfo, None]) -> Reply:
        return await self._relay(request, request.command.fields, request.raw_body)

    async def consume_directly(self, request: RequestOf[ConsumeMessageDirectly, bytes]) -> Reply:
        """Answer 309: the client consumes this one message now and tells how it went."""
        header = request.header
        try:
            place = parse_offset_message_id(header.msg_id or "").physical_offset
        except ValueError as fault:
            raise RequestRefused(f"msgId: {fault}") from None
        record = await self.store.ask(lambda: self.store.reader.record_at(place))
        if record is None:
            raise RequestRefused(f"no message {header.msg_id} in this broker")
        check_record(request.rights, record, Action.SUB)
        fields = dict(request.command.fields) | {"brokerName": self.live.config.broker_name}
        topic = self.topics.find(header.topic or "")
        if topic is not None:
            fields["topicSysFlag"] = str(topic.topic_sys_flag)
        group = self.groups.find(header.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.group_sys_flag)
        return await self._relay(request, fields, encode_record(record))

    async def _relay(self, request: Request, fields: Mapping[str, str], body: bytes) -> Reply:
        """Ask the client that the request's header names, and return its answer."""
        group, client_id = request.header.consumer_group, request.header.client_id or ""
        member = self.consumers.find_client(group, client_id)
        if member is None:
            raise RequestRefused(f"The Consumer <{group}> <{client_id}> not online")
        if member.version < Version.V3_1_8_SNAPSHOT:
            raise RequestRefused(
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
        unsigned = {name: value for name, value in fields.items() if name not in SIGNING}  # his, and no client's
        try:
            answer = await member.peer.call(Command(code=request.command.code, fields=unsigned, body=body), RELAY_S)
        except CallTimedOut as fault:
            raise RequestRefused(
                f"consumer <{group}> <{client_id}> Timeout: {fault}", ResponseCode.CONSUME_MSG_TIMEOUT
            ) from None
        except CallFailed as fault:
            raise RequestRefused(f"invoke consumer <{group}> <{client_id}> failed: {fault}") from None
        return Reply(answer.code, remark=answer.remark, fields=answer.fields, body=answer.body)


def _producer(peer: Peer, one: ConnectedProducer) -> ProducerInfo:
    return ProducerInfo(
        client_id=one.client_id,
        remote_ip=f"/{peer.address}",  # as Java prints a socket address
        language=_language(peer),
        version=peer.version,
        last_update_timestamp=one.seen_ms,
    )


def _connection(peer: Peer, client_id: str) -> ClientConnection:
    return ClientConnection(
        client_addr=peer.address, client_id=client_id, language=_language(peer), version=peer.version
    )


def _language(peer: Peer) -> str:
    return "OTHER" if peer.language is None else peer.language.name
