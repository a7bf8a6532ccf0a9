"""Check points that have left memory: written as Java's records, revived from its topic, found again after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ..pop.stored.in_flight import Pair, StoredInFlight
from ..pop.stored.recount import StoredRecount
from ..pop.stored.retry_copies import RetryCopies
from ..pop.stored.revive_topic import ReviveTopic
from ..pop.stored.settled import Settled
from ..pop.stored.spill import JavaSpill
from ..pop.stored.spill_recovery import SpillRecovery
from .delivery import TimingParts
from .foundation import Foundation
from .popping import PopParts
from .serving import SendParts


class StoredPopParts:
    """Event loop only. `recover` once, after that of `PopParts`."""

    def __init__(self, base: Foundation, sends: SendParts, timing: TimingParts, pops: PopParts) -> None:
        live, access, cluster = base.live, sends.access, base.environment.config.broker_cluster_name
        self._environment = base.environment
        quarantine = base.storage.loop_quarantine("popped messages")
        in_flight = StoredInFlight(base.environment.config.timer_precision_ms, base.clock.now_ms())
        appended = base.store.appended
        self.recount = StoredRecount(base.clock, in_flight, timing.timers.glance.waiting, lambda: appended.value)
        settled = Settled(base.clock.now_ms())
        self.spill = JavaSpill(live, access, pops.lanes, base.topics, sends.parks.timer.until, in_flight, settled)
        self.copies = RetryCopies(live, base.topics, base.groups, base.offsets, access, quarantine)
        self.revive = ReviveTopic(
            live, access, base.offsets, self.copies, self.spill, quarantine, timing.timers.glance.still, in_flight
        )
        self._recovery = SpillRecovery(access, pops.lanes, cluster)
        pops.use_spill(self.spill)

    async def recover(self) -> None:
        await self._recovery.run()

    def in_flight(self) -> dict[Pair, int]:
        """Return how many messages of stored check points are in flight, by group and topic."""
        return self.revive.in_flight()

    def parked(self) -> dict[str, int]:
        """Return what waits to be decided, and what is gone, for the inspection command."""
        waits = {
            "popped messages, in flight and no longer in memory": sum(self.in_flight().values()),
            "popped messages, due check points": self.revive.undecided(),
        }
        gone = {"popped messages, LOST": self.copies.gone} if self.copies.gone else {}
        return {name: count for name, count in waits.items() if count} | gone

    def figures(self) -> dict[str, str]:
        """Return what the runtime information has of stored check points; ours alone."""
        numbers = {
            "StoredInFlight": sum(self.in_flight().values()),
            "StoredAcks": self.spill.acks,
            "StoredDue": self.revive.undecided(),
            "StoredLateMs": self.revive.behind_ms(),
            "StoredDecided": self.revive.decided,
            "StoredRevived": self.copies.put,
            "StoredLost": self.copies.gone,
            "LateAcks": self.spill.late,
        }
        return {f"pyromqPop{name}": str(number) for name, number in numbers.items()}

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._environment.loops.keep
        return [keep("stored check points", self.revive.run), keep("count of stored check points", self._count)]

    async def _count(self) -> None:
        await self.recount.run(self.revive.topic)
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Put the last acks, and note what was decided. After `PopParts.close`."""
        self.spill.put_acks()
        await self.revive.close()
