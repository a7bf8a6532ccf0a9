"""Pops in order: their blocks, the table of them, and what hands out and acks by it."""

from __future__ import annotations

from collections.abc import Callable

from ..clients.pulled_queues import PulledQueues
from ..pop.order.lanes import HeldQueues, Wake
from ..pop.order.receipts import OrderedPops
from ..pop.order.source import OrderSource
from ..pop.order.table import OrderTable
from ..pop.young.lanes import Lanes
from .foundation import Foundation
from .serving import PullParts


class OrderParts:
    """Event loop only. `wake` lets who waits on a queue look again."""

    def __init__(
        self,
        base: Foundation,
        pulls: PullParts,
        lanes: Lanes,
        pulled: PulledQueues,
        in_flight: Callable[[int], int],
        wake: Wake,
    ) -> None:
        live, clock = base.live, base.clock
        self._base, self._plain = base, lanes
        self._save = base.environment.table("config/consumerOrderInfo.json")
        self.table = OrderTable(self._save.table, self._note)
        self.lanes = HeldQueues(live, clock, self.table, lanes, base.offsets, wake)
        reading = (pulls.reads, lanes, pulled, base.counters.got, in_flight)
        source = OrderSource(live, base.store, *reading, order=self.lanes)
        self.pops = OrderedPops(live, self.lanes, source, lanes.journal)

    def _note(self, kind: int, body: bytes) -> None:
        self._plain.table.note_other(kind, body)
        self._plain.journal.changed()

    def _store_changed(self) -> bool:
        return self.table.store_changed(self._base.topics, self._base.groups, self._base.clock.now_ms())

    async def saved(self) -> None:
        """Write the table; return once it is on disk."""
        if self._store_changed():
            await self._save.saved()

    async def close_tables(self) -> None:
        self._store_changed()
        await self._save.close()
