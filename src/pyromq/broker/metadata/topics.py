"""The topics of this broker: one versioned table, kept in `config/topics.json` as Java keeps it.

Send, pull and administration ask it; whoever must know of changes (registration, verdicts) watches. A change counts at
once and is on disk soon after: an administrator is answered after that, a send is not held up (`saving.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from ...model import names
from ...model.topic import Perm
from ...protocol.bodies.topics import TopicConfig
from ...store.tables.json_tables import JsonTable
from .table_content import entry, next_version, read_version, section, with_name

SECTION = "topicConfigTable"

# A topic's name and its configuration, None once it is deleted.
TopicWatcher = Callable[[str, TopicConfig | None], None]

DLQ_QUEUES = 1  # of the dead letters of a group


class Topics:
    """Event loop only. Configurations that it hands out are shared: change a copy and `put` it."""

    def __init__(
        self,
        table: JsonTable,
        now_ms: Callable[[], int],
        system: Iterable[TopicConfig] = (),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called whenever there is something new to write."""
        self._table = table
        self._now_ms = now_ms
        self._changed = changed
        self._watchers: list[TopicWatcher] = []
        content = table.load()
        self.version = read_version(content, table.name)
        self._topics: dict[str, TopicConfig] = {}
        self._system = frozenset(topic.topic_name for topic in system)
        for topic in system:
            self._topics[topic.topic_name] = topic
        for name, value in section(content, SECTION).items():
            self._topics[name] = entry(
                TopicConfig, with_name(value, "topicName", name), f"topic {name} in {table.name}"
            )
        missing = [topic for topic in system if topic.topic_name not in section(content, SECTION)]
        if missing:
            for topic in missing:
                self._keep(topic)
            self._new_version()

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def find(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def all(self) -> Mapping[str, TopicConfig]:
        return self._topics

    def page(self, start: int, count: int) -> dict[str, TopicConfig]:
        """Return a stretch of the topics in order of their names."""
        return {name: self._topics[name] for name in sorted(self._topics)[start : start + count]}

    def is_system(self, name: str) -> bool:
        return name in self._system or names.is_system_topic(name)

    def system_names(self) -> list[str]:
        """Return what request 305 lists: names by rule and those of this broker."""
        return sorted(self._system | names.SYSTEM_TOPICS)

    def watch(self, watcher: TopicWatcher) -> None:
        """Call the listener with each change, before anything else can run."""
        self._watchers.append(watcher)

    def put(self, topic: TopicConfig) -> bool:
        """Create or replace. False: it was so already, and nothing has changed."""
        if self._topics.get(topic.topic_name) == topic:
            return False
        self._topics[topic.topic_name] = topic
        self._keep(topic)
        self._new_version()
        for watcher in self._watchers:
            watcher(topic.topic_name, topic)
        return True

    def delete(self, name: str) -> bool:
        if self._topics.pop(name, None) is None:
            return False
        self._table.drop(SECTION, name)
        self._new_version()
        for watcher in self._watchers:
            watcher(name, None)
        return True

    def inherit(self, name: str, parent: str, client_queues: int, sys_flag: int = 0) -> TopicConfig | None:
        """Return the topic, made from `parent` if it is missing; None if the parent does not pass itself on."""
        existing = self._topics.get(name)
        if existing is not None:
            return existing
        model = self._topics.get(parent)
        if model is None or not model.perm & Perm.INHERIT:
            return None
        queues = max(0, min(client_queues, model.write_queue_nums))
        topic = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=model.perm & ~int(Perm.INHERIT),
            topic_sys_flag=sys_flag,
            topic_filter_type=model.topic_filter_type,
        )
        self.put(topic)
        return topic

    def ensure(self, name: str, queues: int, perm: int = int(Perm.READ_WRITE), sys_flag: int = 0) -> TopicConfig:
        """Return the topic, made with these values if it is missing: retry and dead-letter topics."""
        existing = self._topics.get(name)
        if existing is None:
            existing = TopicConfig(
                topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=sys_flag
            )
            self.put(existing)
        return existing

    def declare_ordered(self, names_: Iterable[str]) -> None:
        """Make the topics ordered that the name server's configuration declares as ordered."""
        for name in names_:
            topic = self._topics.get(name)
            if topic is not None and not topic.order:
                self.put(msgspec.structs.replace(topic, order=True))

    def _keep(self, topic: TopicConfig) -> None:
        self._table.put(SECTION, topic.topic_name, msgspec.to_builtins(topic))

    def _new_version(self) -> None:
        self.version = next_version(self.version, self._now_ms())
        self._table.replace("dataVersion", msgspec.to_builtins(self.version))
        self._changed()
