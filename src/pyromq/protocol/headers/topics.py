"""Administration of topics on a broker."""

from __future__ import annotations

from ...model.names import AUTO_CREATE_TOPIC
from ..bodies.topics import TopicConfig
from .header import Header, Int32, RpcHeader, TopicHeader


class CreateTopic(TopicHeader, kw_only=True):
    """17, and 513 with a static topic's mapping as body. `attributes` is `+key=value,-key`."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False

    @classmethod
    def of(cls, topic: TopicConfig, *, attributes: str | None = None, force: bool = False) -> CreateTopic:
        """Return the topic as it is to be; its own attributes are not sent."""
        return cls(
            topic=topic.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_filter_type=topic.topic_filter_type,
            topic_sys_flag=topic.topic_sys_flag,
            order=topic.order,
            attributes=attributes,
            force=force,
        )


class GetAllTopicConfig(Header, kw_only=True):
    """21. Without fields everything is wanted; the pages came with 5.4."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigAnswer(Header, kw_only=True):
    total_topic_num: Int32 | None = None


class TopicName(TopicHeader, kw_only=True):
    """202, 215, 300, 351: a topic and nothing else."""

    topic: str


class QueryTopicsByConsumer(RpcHeader, kw_only=True):
    group: str


class QuerySubscriptionByConsumer(TopicHeader, kw_only=True):
    group: str
    topic: str | None = None
