"""Who is connected, which queues they have locked, and by what they filter."""

from __future__ import annotations

from ...model.filters.bloom import Bloom
from ..clients.consumers import Consumers
from ..clients.filter_data import ConsumerFilters
from ..clients.handlers import ClientHandlers
from ..clients.order_locks import OrderLocks, OrderLockTable
from ..clients.producers import Producers
from ..metadata.groups import Groups
from ..metadata.topics import Topics
from .environment import Environment


class ClientParts:
    """Event loop only."""

    def __init__(self, environment: Environment, topics: Topics, groups: Groups) -> None:
        config, clock = environment.config, environment.clock
        self._clock = clock
        self.consumers, self.producers = Consumers(), Producers()
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
