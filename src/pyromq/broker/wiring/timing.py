"""Delay levels and timers: the two loops that deliver what waits in their topics, and recalls."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from ..intake.intake import LogAccess
from ..metadata.topics import Topics
from ..send.handler import born_host
from ..timing.handlers import TimingHandlers
from ..timing.level_delivery import LevelDelivery
from ..timing.progress import DelayProgress
from ..timing.recall import Recall
from ..timing.timers import Timers
from .environment import Environment
from .parks import Parks
from .storage import Storage


class TimingParts:
    """Event loop only."""

    def __init__(
        self, environment: Environment, storage: Storage, parks: Parks, topics: Topics, access: LogAccess
    ) -> None:
        live = environment.live
        self._environment = environment
        self._store = access.store
        self.timer_store = parks.timer_store
        self._progress_save = environment.table("config/delayOffset.json")
        self.progress = DelayProgress(self._progress_save.table, access.clock.now_ms)
        self.levels = LevelDelivery(access, parks.levels, self.progress, storage.loop_quarantine("delay levels"))
        self.timers = Timers(
            live,
            access,
            self.timer_store,
            environment.table("config/timermetrics"),
            environment.run_blocking,
            storage.loop_quarantine("timers"),
        )
        self.handlers = TimingHandlers(self.progress, self.timer_store, self.timers.counts)
        self.recall = Recall(live, topics, access, parks.timer, born_host)

    def parked(self) -> dict[str, int]:
        """Return how many messages wait, by what they wait for."""
        lost = {"delay levels, LOST": self.levels.lost} if self.levels.lost else {}
        return self.progress.waiting_in(self._store.queues) | lost | self.timers.parked()

    def level_progress(self) -> Mapping[int, tuple[int, int]]:
        return self.progress.levels(self._store.queues)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        seconds = self._environment.config.flush_delay_offset_interval / 1000
        keep = self._environment.loops.keep
        return [
            keep("delay levels", self.levels.run),
            keep("timers", self.timers.run),
            self._environment.every("progress of delay levels", seconds, self._store_progress),
        ]

    def _store_progress(self) -> None:
        if self.progress.store_changed(self._store.flushed.value):
            self._progress_save.changed()

    async def close(self) -> None:
        await self.levels.close()
        await self.timers.close()
        self.progress.store_changed(self._store.flushed.value)
        await self._progress_save.close()
