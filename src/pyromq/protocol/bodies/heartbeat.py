"""What clients say of themselves: heartbeats, subscriptions, queue locks, assignments."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel, MessageRequestMode
from ..ints import Int32, Int64
from .body import Body, always, always_new
from .keyed import MessageQueue

E = TypeVar("E", bound=Enum)

if TYPE_CHECKING:
    FromWhere = ConsumeFromWhere
    Type = ConsumeType
    Model = MessageModel
else:  # C++ clients send the enum's place instead of its name; `__post_init__` looks it up
    FromWhere = ConsumeFromWhere | int
    Type = ConsumeType | int
    Model = MessageModel | int


def named(kind: type[E], value: E | int) -> E:
    """Return the member itself, or the one at that place."""
    if not isinstance(value, int):
        return value
    members = list(kind)
    if 0 <= value < len(members):
        return members[value]
    raise ValueError(f"{kind.__name__} has no member {value}")


class SubscriptionData(Body, kw_only=True):
    class_filter_mode: bool = always(False)
    code_set: list[Int32] = always_new(list)  # Java's hash codes of the tags
    expression_type: str | None = always("TAG")
    sub_string: str = ""
    sub_version: Int64 = always(0)
    tags_set: list[str] = always_new(list)
    topic: str = ""

    def __post_init__(self) -> None:
        """Have each text once for all clients that say it: brokers keep these for as long as they are there."""
        self.topic, self.sub_string = sys.intern(self.topic), sys.intern(self.sub_string)
        if self.expression_type is not None:
            self.expression_type = sys.intern(self.expression_type)


class ConsumerData(Body, kw_only=True):
    consume_from_where: FromWhere = always(ConsumeFromWhere.LAST_OFFSET)
    consume_type: Type = always(ConsumeType.PASSIVELY)
    group_name: str
    message_model: Model = always(MessageModel.CLUSTERING)
    subscription_data_set: list[SubscriptionData] = always_new(list)
    unit_mode: bool = always(False)

    def __post_init__(self) -> None:
        self.consume_from_where = named(ConsumeFromWhere, self.consume_from_where)
        self.consume_type = named(ConsumeType, self.consume_type)
        self.message_model = named(MessageModel, self.message_model)


class ProducerData(Body, kw_only=True):
    group_name: str


class HeartbeatData(Body, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] = always_new(list)
    heartbeat_fingerprint: Int32 = always(0)
    producer_data_set: list[ProducerData] = always_new(list)
    without_sub: bool = always(False)

    def __post_init__(self) -> None:
        self.client_id = sys.intern(self.client_id)  # of the next heartbeat, too: tables keep it


class CheckClientRequestBody(Body, kw_only=True):
    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData


class GetConsumerListByGroupResponseBody(Body, kw_only=True):
    consumer_id_list: list[str] = always_new(list)


class LockBatchRequestBody(Body, kw_only=True):
    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = always_new(list)
    only_this_broker: bool = always(False)


class LockBatchResponseBody(Body, kw_only=True):
    lock_ok_mq_set: list[MessageQueue] = always_new(list, name="lockOKMQSet")


class QueryAssignmentRequestBody(Body, kw_only=True):
    client_id: str
    consumer_group: str
    message_model: Model = always(MessageModel.CLUSTERING)
    strategy_name: str | None = None
    topic: str

    def __post_init__(self) -> None:
        self.message_model = named(MessageModel, self.message_model)


class MessageQueueAssignment(Body, kw_only=True):
    attachments: dict[str, str] | None = None
    message_queue: MessageQueue | None = None
    mode: MessageRequestMode = always(MessageRequestMode.PULL)


class QueryAssignmentResponseBody(Body, kw_only=True):
    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequestBody(Body, kw_only=True):
    consumer_group: str
    mode: MessageRequestMode = always(MessageRequestMode.PULL)
    pop_share_queue_num: Int32 = always(0)
    topic: str


class MessageRequestModeSerializeWrapper(Body, kw_only=True):
    # by topic, then by group
    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = always_new(dict)


class BloomFilterData(Body, kw_only=True):
    bit_num: Int32 = always(0)
    bit_pos: list[Int32] = always_new(list)


class ConsumerFilterData(Body, kw_only=True):
    """Times are ms. It lives while its group has members; a dead one is kept a day, so that versions stay known."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Int64 = always(0)
    client_version: Int64 = always(0)
    consumer_group: str = ""
    dead: bool = always(False)
    dead_time: Int64 = always(0)
    expression: str = ""
    expression_type: str = ""
    topic: str = ""
