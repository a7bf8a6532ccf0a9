"""POP: messages handed out for a time instead of queues to a consumer; and lite topics: many light queues under one."""

from __future__ import annotations

from .header import ConsumerGroupName, GroupQueue, Header, Int32, Int64, RpcHeader, TopicQueue


class PopMessage(GroupQueue, kw_only=True):
    """Queue -1 is any queue."""

    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64 = 0  # of the client's clock; 0: when it arrives
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class AckMessage(GroupQueue, kw_only=True):
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class ChangeInvisibleTime(AckMessage, kw_only=True):
    invisible_time: Int64
    suspend: bool = False  # the later redelivery does not count


class ChangeInvisibleTimeAnswer(Header, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PopLiteMessageAnswer(ChangeInvisibleTimeAnswer, kw_only=True):
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PopMessageAnswer(PopLiteMessageAnswer, kw_only=True):
    rest_num: Int64


class PeekMessage(TopicQueue, kw_only=True):
    max_msg_nums: Int32
    consumer_group: str


class Notification(GroupQueue, kw_only=True):
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationAnswer(Header, kw_only=True):
    has_msg: bool = False
    polling_full: bool = False


class PollingInfoAnswer(Header, kw_only=True):
    polling_num: Int32


# --- lite topics -----------------------------------------------------------------------------------------------------


class PopLiteMessage(RpcHeader, kw_only=True):
    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class NotifyUnsubscribeLite(ConsumerGroupName, kw_only=True):
    lite_topic: str
    client_id: str


class GetLiteTopicInfo(Header, kw_only=True):
    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfo(Header, kw_only=True):
    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


class GetLiteGroupInfo(Header, kw_only=True):
    group: str
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteDispatch(Header, kw_only=True):
    group: str
    client_id: str | None = None
