"""Replaces masters that are gone: at once when a connection ends, else when a broker was silent for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from .. import logs
from ..ambient import Clock
from ..config import Live
from ..coordination.store import CoordinationRefused, CoordinationUnreachable
from ..errors import RequestRefused
from .config import ControllerConfig
from .controlled_sets import ControlledSet, ControlledSets
from .elections import Elections
from .heartbeats import HeardBrokers, ReplicaId
from .leadership import Leadership

log = logs.get("pyromq.controller")

RETRY_S = 1.0


class Failover:
    """Event loop only. Its three loops run until cancelled."""

    def __init__(
        self,
        sets: ControlledSets,
        heard: HeardBrokers,
        elections: Elections,
        leadership: Leadership,
        live: Live[ControllerConfig],
        clock: Clock,
    ) -> None:
        self._sets = sets
        self._heard = heard
        self._elections = elections
        self._leadership = leadership
        self._live = live
        self._clock = clock
        self._gone: dict[ReplicaId, str] = {}
        self._wake = asyncio.Event()

    def departed(self, brokers: Iterable[ReplicaId], why: str) -> None:
        """Note brokers that are gone; those that were masters are replaced, if this controller leads."""
        for who in brokers:
            log.warning(why, broker=who.name, id=who.replica, cluster=who.cluster)
            self._gone[who] = why
            self._wake.set()

    async def replace(self) -> None:
        """Elect in place of masters that departed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            attempts = self._live.config.elect_master_max_retry_count
            while self._gone and attempts > 0:
                who, why = self._gone.popitem()
                if not await self._replaced(who, why):
                    self._gone.setdefault(who, why)
                    attempts -= 1
                    await self._clock.sleep(RETRY_S)
            self._gone.clear()  # the loop that looks for sets without a living master finds what is left

    async def _replaced(self, who: ReplicaId, why: str) -> bool:
        """Return False where the coordination store could not be asked."""
        if not self._leadership.leads:
            return True
        try:
            record = await self._sets.find(who.name, who.cluster)
            if record.content is not None and record.content.master == who.replica:
                await self._elections.replace_master(who.name, who.cluster, f"{why}: {who.replica}")
        except RequestRefused as refusal:
            log.warning("master not replaced", broker=who.name, reason=str(refusal))
        except (CoordinationUnreachable, CoordinationRefused) as fault:
            log.warning("master not replaced yet", broker=who.name, reason=str(fault))
            return False
        return True

    async def expire(self) -> None:
        """Take brokers that were silent for too long as gone."""
        while True:
            await self._clock.sleep(self._live.config.scan_not_active_broker_interval / 1000)
            gone = self._heard.expire()
            for _, peer in gone:
                peer.close("the broker that spoke over it was silent for too long")
            self.departed((who for who, _ in gone), "broker silent for too long")

    async def find_missing_masters(self) -> None:
        """Look for sets whose master is not there: also those whose master died before this controller led."""
        while True:
            await self._clock.sleep(self._live.config.scan_inactive_master_interval / 1000)
            if not self._leadership.leads or self._heard.is_young:
                continue
            try:
                records = await self._sets.all()
            except (CoordinationUnreachable, CoordinationRefused) as fault:
                log.warning("sets not looked at", reason=str(fault))
                continue
            self.departed(filter(None, map(self._missing_master, records)), "master not heard")

    def _missing_master(self, record: ControlledSet) -> ReplicaId | None:
        """Return the master of a set that is not there, while another replica is."""
        content = record.content
        if content is None or content.master is None:
            return None
        heard = self._heard.candidates(record.cluster, record.name).heard
        return ReplicaId(record.cluster, record.name, content.master) if heard and content.master not in heard else None
