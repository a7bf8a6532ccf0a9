"""Delay levels and timers: where delayed messages wait, the two loops that deliver them, and recalls."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from ...model.names import TIMER_TOPIC
from ...store.message_store import MessageStore
from ...store.tables.json_tables import JsonTable
from ...store.timer.timer_store import open_timer_store
from ..intake.intake import Intake
from ..metadata.topics import Topics
from ..send.send import born_host
from ..stats.counters import Counters
from ..timing.deliver import Delivery
from ..timing.handlers import DelayHandlers, TimerHandlers
from ..timing.park import LevelPark
from ..timing.progress import DelayProgress
from ..timing.recall import Recall
from ..timing.table import note_levels
from ..timing.timer_records import TimerPark
from ..timing.timers import Timers
from .ground import Ground
from .storage import Storage


class Timing:
    """Event loop only. `begin` once the broker's own address is known; the loops are there from then on."""

    def __init__(self, ground: Ground, store: MessageStore) -> None:
        config, clock = ground.config, ground.clock
        self._ground = ground
        self._store = store
        self._progress_save = ground.table("config/delayOffset.json")
        self.progress = DelayProgress(self._progress_save.table, clock.now_ms)
        self.levels = LevelPark(config.delay_levels)
        note_levels(JsonTable(ground.disk, "pyromq/delayLevels.json"), config.message_delay_level)
        waiting = store.queues.get(TIMER_TOPIC, 0)
        end = 0 if waiting is None else waiting.next_offset
        self.timer_store = open_timer_store(ground.disk, config.timer, clock.now_ms(), store.reader.record_at, end)
        self.timer_park = TimerPark(
            lambda: ground.live.config, clock.now_ms, self.timer_store.count_at, ground.rng.randrange
        )
        self._timer_counts = ground.table("config/timermetrics")
        self.delays: Delivery | None = None
        self.timers: Timers | None = None

    def begin(self, storage: Storage, intake: Intake, counters: Counters, store_host: bytes) -> None:
        ground = self._ground
        self.delays = Delivery(
            self._store,
            intake,
            ground.clock,
            self.levels,
            self.progress,
            storage.loop_quarantine("delay levels"),
            store_host,
            counters.put,
        )
        self.timers = Timers(
            ground.live,
            self._store,
            intake,
            self.timer_store,
            self._timer_counts,
            ground.run_blocking,
            ground.clock,
            storage.loop_quarantine("timers"),
            store_host,
            counters.put,
        )

    # --- what is served -------------------------------------------------------------------------------------------

    def delay_handlers(self) -> DelayHandlers:
        return DelayHandlers(self.progress)

    def timer_handlers(self) -> TimerHandlers:
        assert self.timers is not None
        return TimerHandlers(self.timer_store, self.timers)

    def recall(self, topics: Topics, intake: Intake, counters: Counters, store_host: bytes) -> Recall:
        return Recall(
            self._ground.live,
            topics,
            self._store,
            intake,
            self.timer_park,
            store_host,
            self._ground.clock.now_ms,
            born_host,
            counters.put,
        )

    # --- what is told ---------------------------------------------------------------------------------------------

    def parked(self) -> dict[str, int]:
        """Messages that wait, by what they wait for."""
        levels = self.progress.waiting_in(self._store.queues)()
        if self.delays is not None and self.delays.lost:
            levels["delay levels, LOST"] = self.delays.lost
        return levels | ({} if self.timers is None else self.timers.parked())

    def level_progress(self) -> Mapping[int, tuple[int, int]]:
        return self.progress.levels(self._store.queues)

    def behind(self) -> Mapping[str, str]:
        return {} if self.timers is None else self.timers.behind()

    # --- running --------------------------------------------------------------------------------------------------

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        assert self.delays is not None
        assert self.timers is not None
        seconds = self._ground.config.flush_delay_offset_interval / 1000
        keep = self._ground.loops.keep
        return [
            keep("delay levels", self.delays.run),
            keep("timers", self.timers.run),
            self._ground.every("progress of delay levels", seconds, self._store_progress),
        ]

    def _store_progress(self) -> None:
        if self.progress.store_changed(self._store.flushed.value):
            self._progress_save.changed()

    async def close(self) -> None:
        if self.delays is not None:
            await self.delays.close()
        if self.timers is not None:
            await self.timers.close()
        self.progress.store_changed(self._store.flushed.value)
        await self._progress_save.close()
