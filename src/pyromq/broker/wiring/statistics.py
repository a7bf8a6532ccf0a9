"""What is counted and measured while the broker runs, and the table of it that tools ask for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ...protocol.row import RequestClass
from ...transport.turns.loop_holds import LoopHolds
from ..admin.runtime import RuntimeInfo
from ..intake.intake import Intake
from ..pull.handler import PullHandler
from ..send.admission import LoopLag
from ..stats.counters import Counters
from .environment import Environment
from .storage import Storage
from .timing import TimingParts

SAMPLE_S = 10.0


class Statistics:
    """Event loop only."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.counters = Counters(environment.config.broker_cluster_name, environment.clock.now_ms())
        self.lag = LoopLag(environment.clock)
        self.holds = LoopHolds(environment.clock, environment.transport.loop_hold_ms)

    def runtime_info(
        self,
        storage: Storage,
        intake: Intake,
        pulls: PullHandler,
        timing: TimingParts,
        waiting: Callable[[RequestClass], int],
    ) -> RuntimeInfo:
        environment = self._environment
        return RuntimeInfo(
            environment.live,
            environment.clock,
            storage.store,
            environment.disk,
            self.counters,
            waiting,
            self.lag.now_ms,
            self.holds,
            intake.times,
            pulls,
            timing.level_progress,
            timing.timers.behind,
            lambda: {
                "pyromqQuarantined": str(len(storage.quarantine)),
                "pyromqLoopFaults": str(environment.loops.restarts),
            },
        )

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._environment.loops.keep
        return [keep("loop lag", self.lag.run), keep("statistics", self._sample_counters)]

    async def _sample_counters(self) -> None:
        clock = self._environment.clock
        while True:
            await clock.sleep(SAMPLE_S)
            for _ in self.counters.sampling(clock.now_ms()):
                await clock.sleep(0)
