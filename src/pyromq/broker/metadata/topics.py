"""The topics of this broker: one versioned table, kept in `config/topics.json` as Java keeps it.

Send, pull and administration ask it; whoever must know of changes (registration, verdicts) watches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from ...model import names
from ...model.topic import SYNC_BROKER_MEMBER_PREFIX, Perm
from ...protocol.bodies.topics import TopicConfig
from ...store.tables.json_tables import JsonTable
from ..config import BrokerConfig
from .config_table import ConfigTable

DLQ_QUEUES = 1  # of the dead letters of a group
INHERITED = Perm.INHERIT | Perm.READ_WRITE


class Topics(ConfigTable[TopicConfig]):
    """Event loop only."""

    SECTION, KIND, NOUN = "topicConfigTable", TopicConfig, "topic"

    def __init__(
        self,
        table: JsonTable,
        now_ms: Callable[[], int],
        system: Collection[TopicConfig] = (),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(table, table.load(), now_ms, changed, system)
        self._system = frozenset(topic.topic_name for topic in system)

    def is_system(self, name: str) -> bool:
        return name in self._system or names.is_system_topic(name)

    def system_names(self) -> list[str]:
        """Return what request 305 lists: names by rule and those of this broker."""
        return sorted(self._system | names.SYSTEM_TOPICS)

    def inherit(self, name: str, parent: str, client_queues: int, sys_flag: int = 0) -> TopicConfig | None:
        """Return the topic, made from `parent` if it is missing; None if the parent does not pass itself on."""
        existing = self._configs.get(name)
        if existing is not None:
            return existing
        model = self._configs.get(parent)
        if model is None or not model.perm & Perm.INHERIT:
            return None
        queues = max(0, min(client_queues, model.write_queue_nums))
        topic = _topic(name, queues, model.perm & ~Perm.INHERIT, sys_flag, model.topic_filter_type)
        self.put(topic)
        return topic

    def ensure(self, name: str, queues: int, perm: int = Perm.READ_WRITE, sys_flag: int = 0) -> TopicConfig:
        """Return the topic, made with these values if it is missing: retry and dead-letter topics."""
        existing = self._configs.get(name)
        if existing is None:
            existing = _topic(name, queues, perm, sys_flag)
            self.put(existing)
        return existing

    def declare_ordered(self, names_: Iterable[str]) -> None:
        """Make the topics ordered that the name server's configuration declares as ordered."""
        for name in names_:
            topic = self._configs.get(name)
            if topic is not None and not topic.order:
                self.put(msgspec.structs.replace(topic, order=True))


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Return the topics that a broker has from birth, as Java's does."""
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


def _topic(
    name: str, queues: int = 1, perm: int = Perm.READ_WRITE, sys_flag: int = 0, filter_type: str = "SINGLE_TAG"
) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=sys_flag,
        topic_filter_type=filter_type,
    )
