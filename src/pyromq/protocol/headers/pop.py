"""POP: messages handed out for a time instead of queues to a consumer."""

from __future__ import annotations

from .header import Header, Int32, Int64, TopicHeader


class PopMessage(TopicHeader, kw_only=True):
    """200050. Queue -1 is any queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageAnswer(Header, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessage(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class ChangeInvisibleTime(TopicHeader, kw_only=True):
    """200053. With `suspend` the later redelivery does not count."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    lite_topic: str | None = None
    suspend: bool = False


class ChangeInvisibleTimeAnswer(Header, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessage(TopicHeader, kw_only=True):
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class Notification(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationAnswer(Header, kw_only=True):
    has_msg: bool = False
    polling_full: bool = False


class PollingInfo(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoAnswer(Header, kw_only=True):
    polling_num: Int32
