"""One life of a broker in this process, from its start to its stop or kill, on a disk and a clock of the caller's.

The pytest fixture (`broker.py`), the scenario scripts and the project's own tests all start their brokers here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from ..ambient import Clock
from ..audit.log import AuditLog
from ..broker.broker import Broker
from ..broker.config import BrokerConfig
from ..broker.wiring.listeners import InjectedFaults
from ..config import Loaded
from ..machine.budget import Budget
from ..store.files.disk import Disk
from ..store.message_store import run_at_once
from ..transport.client import Connect

SMALL_FILES: dict[str, Any] = {
    "commit_log_file_bytes": 1 << 20,
    "queue_file_bytes": 20 * 1000,
    "batch_queue_file_bytes": 46 * 1000,
    "index_slots": 1000,
    "index_entries": 4000,
    "timer_log_file_bytes": 52 * 10_000,
}
FLUSH_S = 10.0  # of virtual time: the broker's own 0.5 s would be most of the work of passing hours

ChosenLoops: TypeAlias = Callable[[Broker], list[Coroutine[Any, Any, None]]]


class InProcessBroker:
    """Event loop only. `start` makes one that serves."""

    def __init__(self, broker: Broker, loops: list[Coroutine[Any, Any, None]]) -> None:
        self.broker = broker
        self.address = broker.address
        self._tasks = [asyncio.get_running_loop().create_task(loop) for loop in loops]

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        *,
        clock: Clock,
        disk: Disk,
        seed: int = 7,
        connect: Connect | None = None,
        faults: InjectedFaults | None = None,
        budget: Budget | None = None,
        loops: ChosenLoops = Broker.loops,
        tables_in_log: bool = False,
        audit: AuditLog | None = None,
    ) -> InProcessBroker:
        """Open a broker and let it serve, with all of its loops or those that are wanted."""
        broker = await Broker.open(
            Loaded(config),
            clock=clock,
            rng=random.Random(seed),
            disk=disk,
            run_blocking=run_at_once,
            connect=connect,
            faults=faults,
            budget=budget,
            tables_in_log=tables_in_log,
            audit=audit,
        )
        await broker.start()
        return cls(broker, loops(broker))

    def check_loops(self) -> None:
        """Raise what ended a loop: a broker without it would only look slow."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def halt(self) -> None:
        """End the loops. Nothing runs any more, as after a kill."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def stop(self) -> None:
        """End this life as an operator does: requests are finished, everything is saved."""
        await self.halt()
        await self.broker.stop()

    async def kill(self) -> None:
        """End this life as `kill -9` does: nothing is saved. The next one begins with what the disk kept."""
        await self.halt()
        for server in self.broker.servers:
            await server.stop(0)
        await self.broker.replicating.close()


def virtual_loops(flushes_per_cleaning: int = 1) -> ChosenLoops:
    """Choose the loops for a clock that the test moves: those that carry messages, registration, and a rare flush.

    Each of the others, which only watch, would be a wake-up per second of virtual time.
    """

    def chosen(broker: Broker) -> list[Coroutine[Any, Any, None]]:
        return [*broker.message_loops(), *broker.naming.loops(), _flush(broker, flushes_per_cleaning)]

    return chosen


async def _flush(broker: Broker, flushes_per_cleaning: int) -> None:
    while True:
        for _ in range(flushes_per_cleaning):
            await broker.environment.clock.sleep(FLUSH_S)
            await broker.store.flush_all()
        await broker.retention.round()
