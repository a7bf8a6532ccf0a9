"""What all capabilities are made with: the store and who watches over its files, the tables, the clients, the counters.

Tables are loaded before the store opens and written last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from ...errors import PyroError
from ...kernel import state
from ...kernel.state import Reason
from ...model.filters.bloom import Bloom
from ...store.files.disk import DiskLock
from ...store.log.retention import DiskSpaceGate, Retention, RetentionConfig
from ...store.log.thread_flusher import ThreadFlusher
from ...store.message_store import MessageStore
from ...store.tables.quarantine import TABLE, Quarantine
from ...transport.turns.loop_holds import LoopHolds
from ..clients.consumers import Consumers
from ..clients.filter_data import ConsumerFilters
from ..clients.handlers import ClientHandlers
from ..clients.new_queues import NewQueues
from ..clients.order_locks import OrderLocks, OrderLockTable
from ..clients.popped_subscriptions import PoppedSubscriptions
from ..clients.producers import Producers
from ..intake.intake import Intake
from ..loop_quarantine import LoopQuarantine, put_released
from ..messages.expired import Expired
from ..metadata.attributes import has_batch_queues
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from ..metadata.saving import NewTopics
from ..metadata.topics import Topics, system_topics
from ..quotas import quotas
from ..quotas.counts import QuotaCounts
from ..quotas.gate import QuotaGate
from ..quotas.half_messages import HalfMessages, UndecidedCounts
from ..quotas.scopes import Scopes
from ..quotas.settings import QuotaSettings
from ..quotas.stored import StoredBytes
from ..replication.tables.carried import USERS
from ..replication.tables.fold import ReplicaTable
from ..replication.tables.note import LastRole, TablesNote
from ..replication.tables.replica_tables import in_memory
from ..replication.tables.takeover import take_over
from ..replication.tables.users import ReplicaUsers
from ..send.admission import LoopLag
from ..stats.counters import Counters
from .access import AccessParts
from .environment import Environment

SAMPLE_S = 10.0


async def _nothing() -> None:
    """Sync no log."""


class Tables:
    """Topics, groups and consumer offsets. Event loop only."""

    def __init__(self, environment: Environment) -> None:
        config, now_ms = environment.config, environment.clock.now_ms
        self._clock, self._offsets_every_s = environment.clock, config.flush_consumer_offset_interval / 1000
        self._storing = asyncio.Lock()
        self.flush_log: Callable[[], Awaitable[None]] = _nothing  # until the store is open
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
        return topic is not None and has_batch_queues(topic.attributes)

    async def store_offsets(self) -> bool:
        """Hand changed offsets to their table once the log is on the medium. False: none have changed.

        What a group is past may rest on a record: a copy in a retry topic, a check point, a transaction's end. A power
        cut must not take that and leave the offset. Offsets of before the sync are handed over, not those after it.
        """
        async with self._storing:
            changed = self.offsets.take_changed()
            if changed is None:
                return False
            try:
                await self.flush_log()
            except BaseException:
                self.offsets.give_back(changed)
                raise
            self.offsets.store(changed)
            return True

    async def keep_offsets(self) -> None:
        """Write changed offsets every few seconds."""
        while True:
            await self._clock.sleep(self._offsets_every_s)
            with suppress(PyroError):  # the store says what is wrong with its log; the offsets stay changed
                if await self.store_offsets() or self.offset_save.is_behind:  # somebody else has stored some
                    self.offset_save.changed()

    async def offsets_saved(self) -> None:
        await self.store_offsets()
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
            is_elected=environment.elected is not None,
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


class ClientParts:
    """Who is connected, which queues they have locked, and by what they filter. Event loop only."""

    def __init__(self, environment: Environment, topics: Topics, groups: Groups) -> None:
        config, clock = environment.config, environment.clock
        self._clock = clock
        self.consumers, self.producers = Consumers(), Producers()
        self.popped = PoppedSubscriptions()
        self.locks = OrderLocks(config.rebalance_lock_max_live_time / 1000)
        self._lock_save = environment.table("pyromq/orderLocks.json")
        self._kept_locks = OrderLockTable(self._lock_save.table, self.locks, clock.monotonic(), self._lock_save.saved)
        self._filter_save = environment.table("config/consumerFilter.json")
        bloom = Bloom.sized(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self.filters = ConsumerFilters(
            self._filter_save.table, clock.now_ms, bloom, self._filter_save.changed, config.max_filter_data_bytes
        )
        tables = (topics, groups, self.consumers, self.producers, self.locks, self.filters)
        memory_bytes = environment.budget.memory_bytes
        self.handlers = ClientHandlers(environment.live, clock, *tables, self._kept_locks.keep, memory_bytes)

    def is_locked(self, group: str) -> bool:
        return self.locks.is_locked(group, self._clock.monotonic())

    def housekeep(self) -> None:
        self.handlers.housekeep()
        if self._kept_locks.note():  # some have expired: a restart must not bring them back
            self._lock_save.changed()

    async def close_tables(self) -> None:
        for save in (self._lock_save, self._filter_save):
            await save.close()


class Statistics:
    """What is counted and measured while the broker runs. Event loop only."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.counters = Counters(environment.config.broker_cluster_name, environment.clock.now_ms())
        self.lag = LoopLag(environment.clock)
        self.holds = LoopHolds(environment.clock, environment.transport.loop_hold_ms)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._environment.loops.keep
        return [keep("loop lag", self.lag.run), keep("statistics", self._sample_counters)]

    async def _sample_counters(self) -> None:
        clock = self._environment.clock
        while True:
            await clock.sleep(SAMPLE_S)
            for _ in self.counters.sampling(clock.now_ms()):
                await clock.sleep(0)


class Foundation:
    """Event loop only. Making it recovers the store; the `lock` on it is the store's from then on."""

    def __init__(self, environment: Environment, flusher: ThreadFlusher | None, lock: DiskLock) -> None:
        self.environment = environment
        self.live, self.clock = environment.live, environment.clock
        self.access = AccessParts(environment)
        self.tables = Tables(environment)
        self.topics, self.groups, self.offsets = self.tables.topics, self.tables.groups, self.tables.offsets
        self.storage = Storage(environment, self.tables, flusher, lock)
        self.store = self.storage.store
        self.tables.flush_log = self.store.flush_log
        self.statistics = Statistics(environment)
        self._quota_save = environment.table(quotas.TABLE)
        given = environment.config.part(QuotaSettings).parsed()
        self.quotas = quotas.Quotas(self.clock, self._quota_save.table, self._quota_save.changed, given)
        self.access.admin.counts_callers = lambda: self.quotas.counts_callers
        self.knows_what_left, self.timers_doubtful = self.store.recovery.clean_stop, False
        if environment.recorder is not None:
            with environment.recorder.silence():
                takeover = take_over(self.store, environment.disk, self.replica_tables)
            self.knows_what_left, self.timers_doubtful = takeover.knows_what_left, takeover.timers_doubtful
        self.counters = self.statistics.counters
        self.clients = ClientParts(environment, self.topics, self.groups)
        self.consumers, self.producers = self.clients.consumers, self.clients.producers
        if not environment.is_slave:  # whose offsets are its master's
            self.topics.watch(NewQueues(self.topics, self.offsets, self.consumers, self.store).note)

    def replica_tables(self, position: Callable[[], int]) -> dict[str, ReplicaTable]:
        """Return the tables in memory as records of changes meet them. `position`: of the record that is taken."""

        def topic_gone(name: str) -> None:
            self.remove_queues(name, position())

        is_anew = TablesNote(self.environment.disk).role in (LastRole.NONE, LastRole.LEADS)
        users = ReplicaUsers(self.access.of_set, is_anew)
        return in_memory(self.topics, self.groups, self.offsets, topic_gone) | {USERS: users}

    def remove_queues(self, topic: str, end: int) -> None:
        """Remove the queues of a topic that a master deleted when its log ended here, unless they have newer messages:
        then it was made again."""
        lasts = [queue.last_entry() for queue in self.store.queues.of_topic(topic)]
        if all(last is None or last.position < end for last in lasts):
            self.store.queues.remove_topic(topic)
            self.statistics.counters.forget_topic(topic)

    def quota_gate(self, timers_of: Callable[[str], int], undecided: UndecidedCounts) -> QuotaGate:
        """Return what holds requests to their quotas. `timers_of`: messages of a topic that wait for their time.
        `undecided`: half messages that nobody has ended."""
        stored = StoredBytes(self.store.queues.of_topic, self.clock.monotonic)
        counts = QuotaCounts(self.topics, self.groups, timers_of, stored)
        inner = self.environment.config.access.inner_credentials()
        scopes = Scopes("" if inner is None else inner.name)
        return QuotaGate(self.quotas, counts, HalfMessages(undecided), self.clock, scopes)

    async def quotas_saved(self) -> None:
        """Return once the table is on disk, and gateways know whether they are to say for whom they ask."""
        await self._quota_save.saved()
        await self.access.admin.announce_to_listeners()

    async def close_tables(self) -> None:
        for part in (self.tables, self.storage, self.clients, self.access):
            await part.close_tables()
        await self._quota_save.close()
