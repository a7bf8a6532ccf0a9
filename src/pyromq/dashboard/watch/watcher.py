"""Looks at a cluster again and again, and keeps its newest snapshot and the history of its totals.

One for each cluster. Pages never wait for it: they show the snapshot and its age. A broker that does not answer keeps
its last figures, with the reason beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ... import logs
from ...admin import cluster
from ...admin.calls import Calls
from ...admin.cluster import BrokerPlace
from ...ambient import Clock
from ...client.errors import Error, Refused
from ...errors import CallFailed, Malformed
from ...model.codes import ResponseCode
from ...protocol.headers.admin import SnapshotRequest
from ...protocol.requests import RequestCode
from .any_broker import QueryRounds
from .figures import BrokerSnapshot, ClusterSnapshot
from .history import History
from .own_broker import take

log = logs.get("pyromq.dashboard")

LEAST_S = 2.0  # between two looks
SHARE = 0.005  # of a broker's time that looks may take at most
MOST_S = 60.0
REMEMBERED_S = 600  # so long a broker that the name server no longer knows is shown
GONE = "the name server does not know it any more: it was stopped, or cannot reach the name server"
_FAULTS = (Error, CallFailed, Malformed)


@dataclass(slots=True, eq=False, repr=False)
class Watcher:
    """Event loop only."""

    calls: Calls
    clock: Clock
    history: History
    snapshot: ClusterSnapshot
    every_s: float = LEAST_S
    _turns: dict[str, QueryRounds] = field(default_factory=dict)
    _foreign: set[str] = field(default_factory=set)  # addresses of brokers that do not know request 30008
    _cost_s: float = 0.0  # of the dearest broker's last answer
    _looked: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        while True:
            await self.refresh()
            await self.clock.sleep(min(MOST_S, max(self.every_s, self._cost_s / SHARE)))

    async def refresh(self) -> None:
        """Take one snapshot. Nothing that goes wrong ends it: it is part of the snapshot."""
        fault = ""
        try:
            places = await cluster.brokers(self.calls)
        except _FAULTS as error:
            fault, places = str(error), []
        wanted, gone = self._of_places(places) if not fault else (list(self.snapshot.brokers), [])
        self._cost_s = 0.0
        brokers = await asyncio.gather(*(self._refresh_broker(one) for one in wanted))
        number, now_ms = self.snapshot.number + 1, self.clock.now_ms()
        self.snapshot = ClusterSnapshot(number=number, at_ms=now_ms, fault=fault, brokers=(*brokers, *gone))
        self.history.note(self.snapshot)
        self._looked.set()
        self._looked = asyncio.Event()

    async def next_snapshot(self) -> ClusterSnapshot:
        """Wait for the next look, and return its snapshot."""
        await self._looked.wait()
        return self.snapshot

    def _of_places(self, places: list[BrokerPlace]) -> tuple[list[BrokerSnapshot], list[BrokerSnapshot]]:
        """Return the brokers that the name server knows, with what they told last, and those that it knew lately."""
        before = {one.address: one for one in self.snapshot.brokers}
        found = []
        for place in places:
            fresh = BrokerSnapshot(cluster=place.cluster, name=place.name, id=place.id, address=place.address, at_ms=0)
            known = before.pop(place.address, fresh)
            found.append(msgspec.structs.replace(known, cluster=place.cluster, name=place.name, id=place.id))
        oldest_ms = self.clock.now_ms() - REMEMBERED_S * 1000
        gone = [msgspec.structs.replace(one, fault=GONE) for one in before.values() if one.at_ms >= oldest_ms]
        return found, gone

    async def _refresh_broker(self, before: BrokerSnapshot) -> BrokerSnapshot:
        try:
            if not before.is_master:
                runtime = await cluster.runtime(self.calls, before.address)
                return msgspec.structs.replace(before, at_ms=self.clock.now_ms(), fault="", runtime=runtime)
            if before.address not in self._foreign:
                found = await self._refresh_ours(before)
                if found is not None:
                    return found
                self._foreign.add(before.address)
            turns = self._turns.setdefault(before.address, QueryRounds(self.calls))
            return await turns.refresh(before, self.clock.now_ms(), self.clock.monotonic())
        except _FAULTS as error:
            if not before.fault:
                log.warning("a broker does not answer", broker=before.name, address=before.address, fault=str(error))
            return msgspec.structs.replace(before, fault=str(error))

    async def _refresh_ours(self, before: BrokerSnapshot) -> BrokerSnapshot | None:
        """Ask for what has changed; None: it is no broker of ours, or one that is older."""
        header = SnapshotRequest(life=before.life, since=before.number)
        try:
            answer = (await self.calls.ask(before.address, RequestCode.SNAPSHOT, header)).body
        except Refused as refusal:
            if refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        self._cost_s = max(self._cost_s, answer.took_ms / 1000)
        runtime = await cluster.runtime(self.calls, before.address)
        inspection = await cluster.inspect(self.calls, before.address)
        return msgspec.structs.replace(take(before, answer), runtime=runtime, inspection=inspection)


def empty_snapshot(now_ms: Callable[[], int]) -> ClusterSnapshot:
    """Return what is known before the first look."""
    return ClusterSnapshot(number=0, at_ms=now_ms())
