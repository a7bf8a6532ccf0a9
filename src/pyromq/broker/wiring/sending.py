"""Sends, replies to requests, and the one door into the log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ...model.ids import UniqueIds
from ...model.names import HALF_TOPIC
from ...protocol.bodies.topics import TopicConfig
from ...store.config import FlushMode
from ...transport.limits import Limits
from ..duplicates.duplicate_recovery import rebuild_window
from ..duplicates.duplicate_window import DuplicateTable
from ..duplicates.send_once import SendOnce
from ..intake.intake import Intake
from ..intake.parking import Park
from ..send.admission import Admission
from ..send.replies import Replies
from ..send.send import SendHandler
from ..send.send_checks import SendChecks
from ..send.send_verdicts import Sending
from ..send.stamp import Stamp
from ..transactions.recent import RecentHalves
from .clients import ClientSide
from .ground import Ground
from .statistics import Statistics
from .storage import Storage
from .tables import Tables


class Sends:
    """Event loop only. `begin` once the broker's own address is known; `handler` and `parts` are there from then on."""

    def __init__(self, ground: Ground, storage: Storage, parks: Sequence[Park], recent: RecentHalves) -> None:
        self._ground = ground
        self._storage = storage
        listeners = {HALF_TOPIC: recent.stored}
        self.intake = Intake(storage.store, ground.clock, ground.config.flush_mode, parks, listeners)
        self.duplicates = self._duplicate_window()

    def _duplicate_window(self) -> DuplicateTable | None:
        config = self._ground.config
        if not config.duplicate_window_enable:
            return None
        table = DuplicateTable(config.duplicate_window_messages, config.duplicate_window_seconds * 1000)
        rebuild_window(table, self._storage.store.commit_log, config.delay_levels, self._ground.clock.now_ms())
        return table

    def begin(
        self,
        tables: Tables,
        clients: ClientSide,
        statistics: Statistics,
        store_host: bytes,
        limits: Limits,
        parked_answers: Callable[[], int],
        auto_created: Callable[[TopicConfig], None],
    ) -> None:
        """`parked_answers`: answers of a kernel that wait for a sync."""
        ground, config, clock, intake = self._ground, self._ground.config, self._ground.clock, self.intake
        ids = UniqueIds(config.advertised_host, os.getpid(), ground.rng.getrandbits(32), clock.now_ms)
        stamp = Stamp(config.broker_cluster_name, config.region_id, ids.next)
        self.checks = SendChecks(
            tables.topics, tables.groups, clock.now_ms, clients.is_locked, ground.rng.randrange, auto_created
        )
        admit = self._admission(statistics, parked_answers)
        self.handler = SendHandler(
            ground.live,
            self.checks,
            intake if self.duplicates is None else SendOnce(intake, self.duplicates, clock.now_ms),
            stamp,
            store_host,
            admit,
            statistics.counters.put,
            tables.new_topics,
            limits.frame,
        )
        self.parts = Sending(
            ground.live,
            tables.topics,
            self.checks,
            admit,
            intake,
            stamp,
            store_host,
            tables.new_topics,
            self._storage.store,
            clock,
            statistics.counters,
            statistics.lag,
            self._storage.gate,
            limits,
        )

    def _admission(self, statistics: Statistics, parked_answers: Callable[[], int]) -> Admission:
        store = self._storage.store

        def waiting_for_disk() -> int:
            """Asked for every received buffer, so it is quick where there are none."""
            if self._ground.config.flush_mode is FlushMode.ASYNC:
                return 0
            return self.intake.waiting + parked_answers()

        return Admission(
            self._ground.clock, statistics.lag, lambda: store.unflushed, waiting_for_disk, self._storage.refusal
        )

    def replies(self, clients: ClientSide, own_address: Callable[[], str]) -> Replies:
        return Replies(self._ground.live, self._ground.clock, clients.producers, self.handler, own_address)
