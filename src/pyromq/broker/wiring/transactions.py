"""Transactions: the half messages that are undecided, the loop that asks about them, and who decides."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ..clients.producers import Producers
from ..metadata.offsets import Offsets
from ..timing.level_park import LevelPark
from ..transactions.carry import HalfCarrier
from ..transactions.check import TransactionChecks
from ..transactions.end import TransactionEnds
from ..transactions.halves import Halves
from ..transactions.listing import HalfListing
from ..transactions.recovery import recover
from .environment import Environment
from .sending import SendParts
from .storage import Storage

# Nobody but us reads it: with 100,000 undecided, writing it whole each few seconds costs much.
CHECKS_FOLD_S = 60.0


class TransactionParts:
    """Event loop only. `recover` once, before the first end arrives."""

    def __init__(
        self,
        environment: Environment,
        storage: Storage,
        offsets: Offsets,
        producers: Producers,
        sends: SendParts,
        levels: LevelPark,
    ) -> None:
        live, access = environment.live, sends.access
        self._environment = environment
        self._store = storage.store
        self._checks_save = environment.table("pyromq/transactionChecks.json", CHECKS_FOLD_S)
        self._metrics_save = environment.table("config/transactionMetrics")
        self.halves = Halves(access, offsets, self._checks_save.table, storage.loop_quarantine("transactions"))
        self.listing = HalfListing(self.halves, self._metrics_save.table)
        self.checks = TransactionChecks(live, self.halves, producers, self._changed)
        self.carrier = HalfCarrier(self.halves)
        self.ends = TransactionEnds(live, access, self.halves, sends.recent_halves, levels.park)

    async def recover(self) -> None:
        await recover(self._store, self.halves)

    def parked(self) -> dict[str, int]:
        """Return how many half messages are lost, if any are."""
        return {"half messages, LOST": self.halves.lost} if self.halves.lost else {}

    def _changed(self) -> None:
        self.listing.count()
        self._checks_save.changed()
        self._metrics_save.changed()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._environment.loops.keep("transaction checks", self.checks.run)]

    async def close_tables(self) -> None:
        await self._checks_save.close()
        await self._metrics_save.close()
