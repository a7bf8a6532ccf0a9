"""The topics that a broker has from birth, as Java's does. Pure: from settings to a list."""

from __future__ import annotations

from ...model import names
from ...model.topic import SYNC_BROKER_MEMBER_PREFIX, Perm
from ...protocol.bodies.topics import TopicConfig
from ..config import BrokerConfig

INHERITED = Perm.INHERIT | Perm.READ_WRITE


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    cluster, broker = config.broker_cluster_name, config.broker_name
    topics = [
        _topic(names.SELF_TEST_TOPIC),
        _topic(names.BENCHMARK_TOPIC, 1024),
        _topic(cluster, 16, INHERITED if config.cluster_topic_enable else Perm.INHERIT),
        _topic(broker, 1, INHERITED if config.broker_topic_enable else Perm.INHERIT),
        _topic(names.OFFSET_MOVED_TOPIC),
        _topic(names.SCHEDULE_TOPIC, max(18, len(config.delay_levels))),
        _topic(cluster + names.REPLY_SUFFIX),
        _topic(names.REVIVE_PREFIX + cluster, 8),
        _topic(SYNC_BROKER_MEMBER_PREFIX + broker, 1, Perm.INHERIT),
        _topic(names.HALF_TOPIC),
        _topic(names.OP_HALF_TOPIC),
        _topic(names.ROCKSDB_HALF_TOPIC),
        _topic(names.ROCKSDB_OP_HALF_TOPIC),
        _topic(names.CHECKS_EXHAUSTED_TOPIC),
        _topic(names.TIMER_TOPIC),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, INHERITED))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name))
    return topics


def _topic(name: str, queues: int = 1, perm: Perm = Perm.READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=int(perm))
