"""Sends, replies to requests, and the one door into the log."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...model.ids import UniqueIds
from ...model.names import HALF_TOPIC
from ...protocol.bodies.topics import TopicConfig
from ...store.config import FlushMode
from ..duplicates.duplicate_recovery import rebuild_window
from ..duplicates.duplicate_window import DuplicateTable
from ..duplicates.send_once import SendOnce
from ..intake.intake import Intake, LogAccess
from ..send.admission import Admission, keep_gate
from ..send.checks import SendChecks
from ..send.handler import SendHandler
from ..send.properties import Stamp
from ..send.replies import ReplyHandler
from ..send.verdicts import Sending
from ..transactions.end import RecentHalves
from .clients import ClientParts
from .environment import Environment
from .parks import Parks
from .statistics import Statistics
from .storage import Storage
from .tables import Tables


class SendParts:
    """Event loop only."""

    def __init__(
        self,
        environment: Environment,
        storage: Storage,
        tables: Tables,
        clients: ClientParts,
        statistics: Statistics,
        parks: Parks,
        pending_replies: Callable[[], int],
        auto_created: Callable[[TopicConfig], None],
    ) -> None:
        """`pending_replies`: answers of a kernel that wait for a sync. `auto_created` is called for each new topic."""
        config, live, clock, limits = environment.config, environment.live, environment.clock, environment.limits
        store, store_host, counters = storage.store, environment.store_host, statistics.counters
        self.recent_halves = RecentHalves()
        listeners = {HALF_TOPIC: self.recent_halves.stored}
        self.intake = Intake(store, clock, config.flush_mode, storage.append_gate, parks.all(), listeners)
        self.access = LogAccess(store, self.intake, clock, store_host, counters.put)
        self.duplicates = _duplicate_window(environment, storage)
        ids = UniqueIds(config.advertised_host, os.getpid(), environment.rng.getrandbits(32), clock.now_ms)
        stamp = Stamp(config.broker_cluster_name, config.region_id, ids.next)
        randrange = environment.rng.randrange
        checks = SendChecks(tables.topics, tables.groups, clock.now_ms, clients.is_locked, randrange, auto_created)
        admit = self._admission(environment, storage, statistics, pending_replies)
        self.handler = SendHandler(
            live,
            checks,
            self.intake if self.duplicates is None else SendOnce(self.intake, self.duplicates, clock.now_ms),
            stamp,
            store_host,
            admit,
            counters.put,
            tables.new_topics,
            limits.frame,
        )
        self.replies = ReplyHandler(live, clock, clients.producers, self.handler, environment.address)
        self.parts = Sending(
            live,
            tables.topics,
            checks,
            admit,
            self.intake,
            stamp,
            store_host,
            tables.new_topics,
            store,
            clock,
            counters,
            storage.append_gate,
            limits,
        )
        keep_gate(storage.append_gate, live, statistics.lag, store.flushed)

    def _admission(
        self,
        environment: Environment,
        storage: Storage,
        statistics: Statistics,
        pending_replies: Callable[[], int],
    ) -> Admission:
        store = storage.store

        def waiting_for_disk() -> int:
            """Return how many puts wait for a sync. Asked for every received buffer, so quick where there are none."""
            if environment.config.flush_mode is FlushMode.ASYNC:
                return 0
            return self.intake.waiting + pending_replies()

        return Admission(environment.clock, statistics.lag, lambda: store.unflushed, waiting_for_disk, storage.refusal)


def _duplicate_window(environment: Environment, storage: Storage) -> DuplicateTable | None:
    config = environment.config
    if not config.duplicate_window_enable:
        return None
    table = DuplicateTable(config.duplicate_window_messages, config.duplicate_window_seconds * 1000)
    rebuild_window(table, storage.store.commit_log, config.delay_levels, environment.clock.now_ms())
    return table
