"""Topics, groups and consumer offsets: loaded before the store opens, written last."""

from __future__ import annotations

from ..metadata.attributes import QUEUE_TYPE
from ..metadata.groups import Groups
from ..metadata.new_topics import NewTopics
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics, system_topics
from .environment import Environment


class Tables:
    """Event loop only."""

    def __init__(self, environment: Environment) -> None:
        config, now_ms = environment.config, environment.clock.now_ms
        self.topic_save = environment.table("config/topics.json")
        self.group_save = environment.table("config/subscriptionGroup.json")
        self.offset_save = environment.table("config/consumerOffset.json")
        self.topics = Topics(self.topic_save.table, now_ms, system_topics(config), self.topic_save.changed)
        self.new_topics = NewTopics(self.topic_save.saved)
        self.groups = Groups(self.group_save.table, now_ms, self.group_save.changed)
        self.offsets = Offsets(
            self.offset_save.table,
            now_ms,
            config.consumer_offset_update_version_step,
            lambda: environment.live.config.max_consumer_offsets,
        )

    def is_batch_topic(self, name: str) -> bool:
        topic = self.topics.find(name)
        return topic is not None and topic.attributes.get(QUEUE_TYPE) == "BatchCQ"

    def store_offsets(self) -> None:
        if self.offsets.store_changed():
            self.offset_save.changed()

    async def offsets_saved(self) -> None:
        self.offsets.store_changed()
        await self.offset_save.saved()

    async def close_tables(self) -> None:
        self.offsets.store_changed()
        for save in (self.topic_save, self.group_save, self.offset_save):
            await save.close()
