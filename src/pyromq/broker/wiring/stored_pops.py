"""Check points that have left memory: written as Java's records, revived from its topic, found again after a kill."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ..pop.stored.retry_copies import RetryCopies
from ..pop.stored.revive_topic import ReviveTopic
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
        self.spill = JavaSpill(live, access, pops.lanes, base.topics, sends.parks.timer.until)
        self.copies = RetryCopies(live, base.topics, base.groups, base.offsets, access, quarantine)
        self.revive = ReviveTopic(
            live, access, base.offsets, self.copies, self.spill, quarantine, timing.timers.glance.still
        )
        self._recovery = SpillRecovery(access, pops.lanes, cluster)
        pops.use_spill(self.spill)

    async def recover(self) -> None:
        await self._recovery.run()

    def parked(self) -> dict[str, int]:
        """Return what waits to be decided, and what is gone, for the inspection command."""
        waits = {"popped messages, due check points": self.revive.undecided()}
        gone = {"popped messages, LOST": self.copies.gone} if self.copies.gone else {}
        return {name: count for name, count in waits.items() if count} | gone

    def figures(self) -> dict[str, str]:
        """Return what the runtime information has of stored check points; ours alone."""
        numbers = {
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
        return [self._environment.loops.keep("stored check points", self.revive.run)]

    async def close(self) -> None:
        """Put the last acks, and note what was decided. After `PopParts.close`."""
        self.spill.put_acks()
        await self.revive.close()
