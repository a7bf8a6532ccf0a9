"""One cluster as the pages see it: its newest snapshot, its history, what the checks found, a way to ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ...admin.calls import Calls
from ...admin.checkup.checked import CheckedCluster, CheckResult
from ...admin.checkup.checkup import examine
from ...admin.cluster import BrokerPlace
from ...admin.replicas import ReadElectedState
from ...client.errors import Error
from ...errors import CallFailed, Malformed
from .figures import ClusterSnapshot
from .history import History
from .watcher import Watcher

CHECK_S = 30.0  # between two runs of all checks
_FAULTS = (Error, CallFailed, Malformed)


@dataclass(slots=True)
class Checkup:
    """What the checks found last. `at_ms` is 0 before they ran."""

    results: list[CheckResult] = field(default_factory=list)
    at_ms: int = 0
    fault: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ClusterWatch:
    """Event loop only. `name` is in every address of its pages."""

    name: str
    calls: Calls
    watcher: Watcher
    now_ms: Callable[[], int]
    read_elected: ReadElectedState | None = None
    checkup: Checkup = field(default_factory=Checkup)
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.watcher.snapshot

    @property
    def history(self) -> History:
        return self.watcher.history

    @property
    def places(self) -> list[BrokerPlace]:
        """Return the masters that answer, in the form in which `admin` asks them."""
        return [
            BrokerPlace(one.cluster, one.name, one.id, one.address) for one in self.snapshot.masters if not one.fault
        ]

    async def check(self) -> Checkup:
        """Run all checks now, and keep what they find."""
        async with self._checking:
            fault, results = "", []
            try:
                results = await examine(CheckedCluster(self.calls, read_elected=self.read_elected))
            except _FAULTS as error:
                fault = str(error)
            self.checkup = Checkup(results, self.now_ms(), fault)
            return self.checkup

    async def keep_checking(self) -> None:
        while True:
            await self.check()
            await self.watcher.clock.sleep(CHECK_S)
