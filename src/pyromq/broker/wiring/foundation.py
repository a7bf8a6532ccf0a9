"""What all capabilities are made with: the store and who watches over its files, the tables, the clients, the counters.

Tables are loaded before the store opens and written last.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ...errors import PyroError
from ...kernel import state
from ...kernel.state import Reason
from ...store.files.disk import DiskLock
from ...store.log.retention import DiskSpaceGate, Retention, RetentionConfig
from ...store.log.thread_flusher import ThreadFlusher
from ...store.message_store import MessageStore
from ...store.tables.quarantine import TABLE, Quarantine
from ..intake.intake import Intake
from ..loop_quarantine import LoopQuarantine
from ..messages.expired import Expired
from ..metadata.attributes import QUEUE_TYPE
from ..metadata.groups import Groups
from ..metadata.new_topics import NewTopics
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics, system_topics
from ..quarantine_release import put_released
from .clients import ClientParts
from .environment import Environment
from .statistics import Statistics


class Tables:
    """Topics, groups and consumer offsets. Event loop only."""

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


class Storage:
    """The store, the disk's space, retention, and the notes on what went. Event loop only."""

    def __init__(self, environment: Environment, tables: Tables, flusher: ThreadFlusher | None, lock: DiskLock) -> None:
        config, clock = environment.config, environment.clock
        self.store = MessageStore(
            environment.disk,
            config,
            clock,
            environment.run_blocking,
            tables.is_batch_topic,
            flusher,
            lock,
            environment.budget.shares,
        )
        retention = config.part(RetentionConfig)
        self.append_gate = state.Gate()  # the kernel's
        self.gate = DiskSpaceGate(environment.disk, retention, clock, partial(self.append_gate.set, Reason.DISK))
        self.retention = Retention(self.store, self.gate, self.store.files_in_use, retention, clock)
        self._environment = environment
        self._quarantine_save = environment.table(TABLE)
        self.quarantine = Quarantine(self._quarantine_save.table, clock.now_ms, self._quarantine_save.changed)
        self._expired_save = environment.table("pyromq/expired.json")
        self.expired = Expired(self._expired_save.table, self.store, clock.now_ms, self._expired_save.changed)

    def loop_quarantine(self, loop: str) -> LoopQuarantine:
        """Return the quarantine for one of the loops that handle records."""
        return LoopQuarantine(self.quarantine, loop)

    async def put_released(self, intake: Intake) -> None:
        """Put released records again at a start. The list of them is on disk then, so that a kill repeats nothing."""
        environment = self._environment
        await put_released(self.quarantine, self.store, environment.disk, intake, environment.store_host)
        with suppress(PyroError):  # a disk that is full: the list is written later
            await self._quarantine_save.saved()

    async def keep_quarantined(self, start: int, end: int) -> None:
        """Copy what is in quarantine out of a log file that is about to be deleted."""
        for copy in self.quarantine.copying(self._environment.disk, start, end, self.store.commit_log.read):
            self.quarantine.copied(await self._environment.run_blocking(copy))

    async def close_tables(self) -> None:
        await self._quarantine_save.close()
        await self._expired_save.close()


class Foundation:
    """Event loop only. Making it recovers the store; the `lock` on it is the store's from then on."""

    def __init__(self, environment: Environment, flusher: ThreadFlusher | None, lock: DiskLock) -> None:
        self.environment = environment
        self.live, self.clock = environment.live, environment.clock
        self.tables = Tables(environment)
        self.topics, self.groups, self.offsets = self.tables.topics, self.tables.groups, self.tables.offsets
        self.storage = Storage(environment, self.tables, flusher, lock)
        self.store = self.storage.store
        self.statistics = Statistics(environment)
        self.counters = self.statistics.counters
        self.clients = ClientParts(environment, self.topics, self.groups)
        self.consumers, self.producers = self.clients.consumers, self.clients.producers

    async def close_tables(self) -> None:
        for part in (self.tables, self.storage, self.clients):
            await part.close_tables()
