"""What is counted and measured while the broker runs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...transport.turns.loop_holds import LoopHolds
from ..send.admission import LoopLag
from ..stats.counters import Counters
from .environment import Environment

SAMPLE_S = 10.0


class Statistics:
    """Event loop only."""

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
