"""Messages that the broker itself puts again later: delay levels and timers, transactions, retries and dead letters."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from ...protocol.bodies.stats import TimerMetrics
from ..replication.tables.carried import TIMER_PROGRESS
from ..retries.dead_letters import DeadLetters
from ..retries.send_back import SendBack
from ..send.handler import born_host
from ..timing.level_delivery import LevelDelivery
from ..timing.progress import DelayProgress, TimingHandlers, note_progress, read_progress
from ..timing.recall import Recall
from ..timing.timers import Timers
from ..transactions.check import TransactionChecks
from ..transactions.end import TransactionEnds
from ..transactions.halves import Halves
from ..transactions.listing import HalfListing
from ..transactions.survival import HalfCarrier, recover
from .foundation import Foundation
from .serving import SendParts

# Nobody but us reads it: with 100,000 undecided, writing it whole each few seconds costs much.
CHECKS_FOLD_S = 60.0


class TimingParts:
    """Delay levels and timers, and recalls. Event loop only."""

    def __init__(self, base: Foundation, sends: SendParts) -> None:
        environment, live, access, parks = base.environment, base.live, sends.access, sends.parks
        self._environment = environment
        self._store = base.store
        self.timer_store = parks.timer_store
        self._progress_save = environment.table("config/delayOffset.json")
        self.progress = DelayProgress(self._progress_save.table, base.clock.now_ms)
        self.levels = LevelDelivery(access, parks.levels, self.progress, base.storage.loop_quarantine("delay levels"))
        self._counts_save = environment.table("config/timermetrics")
        self.timers = Timers(
            live,
            access,
            self.timer_store,
            self._counts_save,
            environment.run_blocking,
            base.storage.loop_quarantine("timers"),
        )
        self._timer_progress = environment.table(TIMER_PROGRESS) if environment.tables_in_log else None
        self._read_ms = read_progress(self._timer_progress.table) if self._timer_progress is not None else 0
        self.handlers = TimingHandlers(self.progress, self.timer_store, self.timers.counts)
        self.recall = Recall(live, base.topics, access, parks.timer, born_host)

    async def adopt_levels(self, offsets: Mapping[int, int], end: int) -> None:
        """Go on where the master is; `_store_progress` writes it once the log is on the medium up to `end`."""
        await self.levels.adopt(offsets, end)

    def adopt_counts(self, metrics: TimerMetrics) -> None:
        self.timers.counts.adopt(metrics.data_version, metrics.timing_count)
        self._counts_save.changed()

    def parked(self) -> dict[str, int]:
        """Return how many messages wait, by what they wait for."""
        lost = {"delay levels, LOST": self.levels.lost} if self.levels.lost else {}
        return self.progress.waiting_in(self._store.queues) | lost | self.timers.parked()

    def level_progress(self) -> Mapping[int, tuple[int, int]]:
        return self.progress.levels(self._store.queues)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._environment.loops.keep
        return [keep("delay levels", self.levels.run), keep("timers", self.timers.run), self.keep_progress()]

    def keep_progress(self) -> Coroutine[Any, Any, None]:
        """Return the loop that writes how far the delay levels are: also of a slave, which its master tells."""
        seconds = self._environment.config.flush_delay_offset_interval / 1000
        return self._environment.every("progress of delay levels", seconds, self.store_progress)

    def store_progress(self) -> None:
        """Hand to the tables how far delays are delivered; in an elected set the timer too."""
        if self.progress.store_changed(self._store.flushed.value):
            self._progress_save.changed()
        if self._timer_progress is not None and self.timer_store.read_ms > self._read_ms:
            self._read_ms = self.timer_store.read_ms
            note_progress(self._timer_progress.table, self._read_ms)
            self._timer_progress.changed()

    # --- in an elected set ----------------------------------------------------------------------------------------

    async def begin_to_lead(self, is_doubtful: bool) -> None:
        """Go on where the set's last master was, as the log says. `is_doubtful`: this member's own files of the timer
        may call messages delivered that were cut off."""
        await self.timers.begin_to_lead(self._read_ms, is_doubtful)

    def waiting_of(self, topic: str) -> int:
        """Return how many messages of a topic wait for their time."""
        return self.timers.counts.of(topic)

    def follow_counts(self) -> None:
        """Leave the counts of the timer to the log."""
        self.timers.counts.is_followed = True

    async def close(self) -> None:
        await self.levels.close()
        await self.timers.close()
        self.progress.store_changed(self._store.flushed.value)
        await self._progress_save.close()
        if self._timer_progress is not None:
            await self._timer_progress.close()


class TransactionParts:
    """The half messages that are undecided, the loop that asks about them, and who decides. Event loop only.

    `recover` once, before the first end arrives.
    """

    def __init__(self, base: Foundation, sends: SendParts) -> None:
        environment, live, access = base.environment, base.live, sends.access
        self._environment = environment
        self._store = base.store
        self._checks_save = environment.table("pyromq/transactionChecks.json", CHECKS_FOLD_S)
        self._metrics_save = environment.table("config/transactionMetrics")
        quarantine, events = base.storage.loop_quarantine("transactions"), base.counters.events
        self.halves = Halves(access, base.offsets, self._checks_save.table, quarantine)
        self.listing = HalfListing(self.halves, self._metrics_save.table)
        self.checks = TransactionChecks(live, self.halves, base.producers, self._changed, events)
        self.carrier = HalfCarrier(self.halves)
        self.ends = TransactionEnds(live, access, self.halves, sends.recent_halves, sends.parks.levels.park, events)

    async def recover(self) -> None:
        await recover(self._store, self.halves)

    def parked(self) -> dict[str, int]:
        """Return how many half messages are lost, if any are."""
        return {"half messages, LOST": self.halves.lost} if self.halves.lost else {}

    def _changed(self) -> None:
        self.listing.count()
        self._checks_save.changed()
        self._metrics_save.changed()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._environment.loops.keep("transaction checks", self.checks.run)]

    async def close_tables(self) -> None:
        await self._checks_save.close()
        await self._metrics_save.close()


class RetryParts:
    """Messages that a consumer gives back, and the dead letters that outlive the log's files. Event loop only."""

    def __init__(self, base: Foundation, sends: SendParts) -> None:
        live, access, retention, events = base.live, sends.access, base.storage.retention, base.counters.events
        quarantine, pick = base.storage.loop_quarantine("dead letters"), base.environment.rng.randrange
        self.dead_letters = DeadLetters(live, access, quarantine, lambda: retention.is_short)
        self.send_back = SendBack(live, base.topics, base.groups, access, sends.parks.levels, pick, events)
