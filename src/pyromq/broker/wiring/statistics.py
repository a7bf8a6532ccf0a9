"""What is counted and measured while the broker runs, and the table of it that tools ask for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ...protocol.row import RequestClass
from ...transport.settings import TransportSettings
from ...transport.turns.loop_holds import LoopHolds
from ..admin.runtime import RuntimeInfo
from ..intake.intake import Intake
from ..pull.pull import PullHandler
from ..send.admission import LoopLag
from ..stats.counters import Counters
from .ground import Ground
from .storage import Storage
from .timing import Timing

SAMPLE_S = 10.0


class Statistics:
    """Event loop only."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.counters = Counters(ground.config.broker_cluster_name, ground.clock.now_ms())
        self.lag = LoopLag(ground.clock)
        self.holds = LoopHolds(ground.clock, ground.config.part(TransportSettings).loop_hold_ms)

    def watch(
        self,
        storage: Storage,
        intake: Intake,
        pulls: PullHandler,
        timing: Timing,
        waiting: Callable[[RequestClass], int],
    ) -> None:
        self.runtime = RuntimeInfo(
            self._ground.live,
            self._ground.clock,
            storage.store,
            self._ground.disk,
            self.counters,
            waiting,
            self.lag.now_ms,
            self.holds,
            intake.times,
            pulls,
            timing.level_progress,
            timing.behind,
            lambda: {
                "pyromqQuarantined": str(len(storage.quarantine)),
                "pyromqLoopFaults": str(self._ground.loops.restarts),
            },
        )

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._ground.loops.keep
        return [
            keep("loop lag", self.lag.run),
            keep("statistics", self._sample_counters),
            self._ground.every("runtime samples", 1.0, self.runtime.sample),
        ]

    async def _sample_counters(self) -> None:
        clock = self._ground.clock
        while True:
            await clock.sleep(SAMPLE_S)
            for _ in self.counters.sampling(clock.now_ms()):
                await clock.sleep(0)
