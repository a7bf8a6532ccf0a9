"""Sends and replies, pulls, and the one door into the log with its parks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from ... import logs
from ...ambient import Clock
from ...kernel.sends import Detour
from ...kernel.state import Reason
from ...model.ids import UniqueIds
from ...model.names import HALF_TOPIC, TIMER_TOPIC
from ...protocol.bodies.topics import TopicConfig
from ...store.message_store import MessageStore
from ...store.recovery.sizes import LEVELS_TABLE
from ...store.tables.json_tables import JsonTable
from ...store.timer.timer_store import open_timer_store
from ..config import BrokerConfig
from ..duplicates.duplicate_recovery import rebuild_window
from ..duplicates.duplicate_window import DuplicateTable
from ..duplicates.send_once import SendOnce
from ..intake.intake import Intake, LogAccess
from ..intake.message_type import DELAY, TRANSACTION
from ..intake.parking import Park, refuse_what_nobody_delivers
from ..pull.checks import PullChecks
from ..pull.handler import PullHandler
from ..pull.slave_reads import SlaveReads
from ..pull.verdicts import PullChanges, Pulling
from ..reading.queue_reads import QueueReads
from ..reading.slow_readers import Backlog, ColdReads
from ..replication.leading.copies import OtherCopies
from ..send.admission import Admission, keep_gate
from ..send.checks import SendChecks
from ..send.handler import SendHandler
from ..send.properties import Stamp
from ..send.replies import ReplyHandler
from ..send.type_checks import TypeChecks
from ..send.verdicts import Sending
from ..timing.level_park import LevelPark
from ..timing.progress import note_levels
from ..timing.timer_park import TimerPark
from ..transactions.end import RecentHalves
from ..transactions.half_records import DETOUR as HALF_DETOUR
from ..transactions.half_records import park_half
from .environment import Environment
from .foundation import Foundation

log = logs.get("pyromq.broker")


class Parks:
    """Each park moves a message aside that waits elsewhere before it reaches its topic. Event loop only."""

    def __init__(self, environment: Environment, store: MessageStore) -> None:
        config, disk, now_ms = environment.config, environment.disk, environment.clock.now_ms
        self.levels = LevelPark(config.delay_levels)
        note_levels(JsonTable(disk, LEVELS_TABLE), config.message_delay_level)
        waiting = store.queues.get(TIMER_TOPIC, 0)
        end = 0 if waiting is None else waiting.next_offset
        self.timer_store = open_timer_store(disk, config.timer, now_ms(), store.reader.record_at, end)
        self.timer = TimerPark(environment.live, now_ms, self.timer_store.count_at, environment.rng.randrange)

    def all(self) -> tuple[Park, ...]:
        """Return the parks in order: the first one that is concerned parks the message."""
        return park_half, refuse_what_nobody_delivers, self.timer, self.levels

    def detours(self, config: BrokerConfig) -> Sequence[tuple[str, Detour]]:
        """Return what a kernel parks by itself, with the type of such messages: the usual case of parks."""
        halves = () if config.reject_transaction_message else ((TRANSACTION, HALF_DETOUR),)
        return *halves, (DELAY, self.levels.detour)


class SendParts:
    """Event loop only."""

    def __init__(
        self,
        base: Foundation,
        copies: OtherCopies,
        pending_replies: Callable[[], int],
        auto_created: Callable[[TopicConfig], None],
    ) -> None:
        """`pending_replies`: answers of a kernel that wait. `auto_created` is called for each new topic."""
        environment, store, counters = base.environment, base.store, base.counters
        config, live, clock, limits = environment.config, base.live, base.clock, environment.limits
        store_host, new_topics, append_gate = environment.store_host, base.tables.new_topics, base.storage.append_gate
        self.parks = parks = Parks(environment, store)
        self.recent_halves = RecentHalves()
        listeners = {HALF_TOPIC: self.recent_halves.stored}
        self.intake = Intake(store, clock, config.answers_wait, append_gate, parks.all(), listeners, copies.status)
        self.access = LogAccess(store, self.intake, clock, store_host, counters.put, base.knows_what_left)
        self.duplicates = _duplicate_window(environment, store)
        ids = UniqueIds(environment.ip, os.getpid(), environment.rng.getrandbits(32), clock.now_ms)
        stamp = Stamp(config.broker_cluster_name, config.region_id, ids.next)
        randrange = environment.rng.randrange
        checks = SendChecks(base.topics, base.groups, clock.now_ms, base.clients.is_locked, randrange, auto_created)
        self.types = TypeChecks(base.topics, counters)
        self.admission = admit = self._admission(base, copies, pending_replies)
        self.handler = SendHandler(
            live,
            checks,
            self.types,
            self.intake if self.duplicates is None else SendOnce(self.intake, self.duplicates, lambda: _age_ms(clock)),
            stamp,
            store_host,
            admit,
            counters.put,
            new_topics,
            limits.frame,
        )
        self.replies = ReplyHandler(live, clock, base.producers, self.handler, environment.address)
        self.parts = Sending(self.handler, self.access, counters, append_gate, limits, parks.detours)
        keep_gate(append_gate, live, base.statistics.lag, store.flushed)

    def _admission(self, base: Foundation, copies: OtherCopies, pending_replies: Callable[[], int]) -> Admission:
        store, waits, gate = base.store, base.environment.config.answers_wait, base.storage.append_gate

        def waiting() -> int:
            """Return how many puts wait to be safe. Asked for every received buffer, so quick where none do."""
            return self.intake.waiting + pending_replies() if waits else 0

        copies.on_change.append(lambda: gate.set(Reason.COPIES, copies.are_too_few))
        no_disk = base.storage.gate.why_refused
        return Admission(
            base.clock, base.statistics.lag, lambda: store.unflushed, waiting, no_disk, lambda: copies.are_too_few
        )


def _duplicate_window(environment: Environment, store: MessageStore) -> DuplicateTable | None:
    config = environment.config
    if not config.duplicate_window_enable:
        return None
    table = DuplicateTable(config.duplicate_window_messages, config.duplicate_window_seconds * 1000)
    rebuild_window(table, store.commit_log, config.delay_levels, _age_ms(environment.clock))
    return table


def _age_ms(clock: Clock) -> int:
    """Return the time by which sends grow old: nobody sets this clock."""
    return int(clock.monotonic() * 1000)


class PullParts:
    """Pulls, and the limits of those who read from the medium. Event loop only."""

    def __init__(self, base: Foundation) -> None:
        live, clock, store, offsets = base.live, base.clock, base.store, base.offsets
        self._base = base
        self.cold_reads, self._backlog = ColdReads(), Backlog()
        self.reads = QueueReads(store, clock, self.cold_reads)
        checks = PullChecks(base.topics, base.groups, base.consumers, base.clients.filters)
        changes = PullChanges(live, base.topics, base.groups, base.consumers, offsets)
        slave_reads = SlaveReads(live, store.commit_log, base.environment.budget.memory_bytes)
        count = base.counters.got
        self.handler = PullHandler(live, clock, store, checks, offsets, self.reads, self._backlog, count, slave_reads)
        self._suggestions_vary = False
        self.parts = Pulling(self.handler, changes, base.counters, base.environment.limits)

    def protect(self) -> None:
        """Stop groups that are too far behind, if that is wanted, until an administrator allows them again."""
        groups, before = self._base.groups, self._suggestions_vary
        self._suggestions_vary = self.handler.slave_reads.vary
        if self._suggestions_vary != before:
            self.parts.changes.end_all()
        self.cold_reads.sweep(self._base.clock.monotonic())
        for name, behind in self._backlog.too_far(self._base.live.config).items():
            group = groups.find(name)
            if group is not None and group.consume_enable:
                log.warning("group reads too far behind and is stopped", group=name, bytes_behind=behind)
                groups.put(msgspec.structs.replace(group, consume_enable=False))
