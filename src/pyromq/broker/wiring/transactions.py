"""Transactions: the half messages that are undecided, the loop that asks about them, and who decides."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...store.message_store import MessageStore
from ..clients.producers import Producers
from ..intake.intake import Intake
from ..metadata.offsets import Offsets
from ..stats.counters import Counters
from ..timing.park import LevelPark
from ..transactions.carry import HalfCarrier
from ..transactions.check import TransactionChecks
from ..transactions.end import TransactionEnds
from ..transactions.halves import Halves
from ..transactions.listing import HalfListing
from ..transactions.recent import RecentHalves
from ..transactions.recovery import recover
from .ground import Ground
from .storage import Storage

# Nobody but us reads it: with 100,000 undecided, writing it whole each few seconds costs much.
CHECKS_FOLD_S = 60.0


class Transactions:
    """Event loop only. `begin` once the broker's own address is known; everything is there from then on."""

    def __init__(self, ground: Ground, store: MessageStore, intake: Intake, recent: RecentHalves) -> None:
        self._ground = ground
        self._store = store
        self._intake = intake
        self._recent = recent
        self._checks_save = ground.table("pyromq/transactionChecks.json", CHECKS_FOLD_S)
        self._metrics_save = ground.table("config/transactionMetrics")
        self.checks: TransactionChecks | None = None

    async def begin(self, storage: Storage, offsets: Offsets, producers: Producers, store_host: bytes) -> None:
        ground, clock = self._ground, self._ground.clock
        self._store_host = store_host
        quarantine = storage.loop_quarantine("transactions")
        self.halves = Halves(self._store, self._intake, offsets, self._checks_save.table, quarantine, store_host, clock)
        self.listing = HalfListing(self.halves, self._metrics_save.table, store_host, clock.now_ms)
        self.checks = TransactionChecks(
            ground.live, clock, self._store, self._intake, self.halves, producers, store_host, self._changed
        )
        await recover(self._store, self.halves)
        self.carrier = HalfCarrier(self._store, self._intake, self.halves, store_host)

    def ends(self, levels: LevelPark, counters: Counters) -> TransactionEnds:
        return TransactionEnds(
            self._ground.live,
            self._store,
            self._intake,
            self.halves,
            self._recent,
            levels.park,
            self._store_host,
            self._ground.clock.now_ms,
            counters.put,
        )

    def parked(self) -> dict[str, int]:
        """Half messages whose records are gone."""
        lost = 0 if self.checks is None else self.listing.lost
        return {"half messages, LOST": lost} if lost else {}

    def _changed(self) -> None:
        self.listing.count()
        self._checks_save.changed()
        self._metrics_save.changed()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        assert self.checks is not None
        return [self._ground.loops.keep("transaction checks", self.checks.run)]

    async def stop(self) -> None:
        if self.checks is not None:
            await self.checks.close()

    async def close_tables(self) -> None:
        await self._checks_save.close()
        await self._metrics_save.close()
