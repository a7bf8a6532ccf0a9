"""Carries an election out: asks the rules, changes the set in the coordination store, tells the brokers (1008)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from .. import logs
from ..ambient import Clock
from ..config import Live
from ..errors import CallFailed
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.replication import SyncStateSet
from ..protocol.command import Command
from ..protocol.headers.replication import ElectedMaster
from ..protocol.requests import RequestCode
from ..transport.client import RemotingClient
from .config import ControllerConfig
from .controlled_sets import ControlledSet, ControlledSets
from .electing import ANYBODY, led_by, led_by_nobody, master_of
from .heartbeats import HeardBrokers, ReplicaId
from .replica_set import ReplicaSet

log = logs.get("pyromq.controller")


class Election(NamedTuple):
    """How an election ended. `is_new`: the master is another one, or the same in a new epoch."""

    record: ControlledSet
    content: ReplicaSet
    master: int | None
    is_new: bool


class Elections:
    """Event loop only."""

    def __init__(
        self,
        sets: ControlledSets,
        heard: HeardBrokers,
        live: Live[ControllerConfig],
        client: RemotingClient,
        clock: Clock,
    ) -> None:
        self._sets = sets
        self._heard = heard
        self._live = live
        self._client = client
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    async def elect(self, name: str, cluster: str, *, asker: int, designated: bool, why: str) -> Election:
        """Elect a master, for a broker or administrator that asks. Raises RequestRefused for what is not registered."""
        return await self._elect(name, cluster, asker, designated, why)

    async def replace_master(self, name: str, cluster: str, why: str) -> Election:
        """Elect a master in place of one that is gone. Where nobody can be, the set has none from then on."""
        return await self._elect(name, cluster, ANYBODY, designated=False, why=why)

    async def _elect(self, name: str, cluster: str, asker: int, designated: bool, why: str) -> Election:
        chosen: int | None = None
        before: ReplicaSet | None = None
        cluster = cluster or (await self._sets.find(name)).cluster

        def decide(found: ReplicaSet | None) -> ReplicaSet | None:
            nonlocal chosen, before
            before = found
            candidates = self._heard.candidates(cluster, name)
            unclean = self._live.config.enable_elect_unclean_master
            chosen = master_of(found, name, candidates, asker=asker, designated=designated, unclean=unclean)
            if found is None or (chosen == found.master and found.master is not None):
                return found
            if chosen is not None:
                return led_by(found, chosen, now_ms=self._clock.now_ms(), why=why)
            return self._without_master(found, asker, why)

        record = await self._sets.change(name, cluster, decide)
        content = record.content or ReplicaSet()
        election = Election(record, content, chosen, is_new=chosen is not None and content != before)
        if election.is_new:
            log.info("master elected", broker=name, master=chosen, epoch=content.epoch, why=why)
            self._notify(record, content)
        return election

    def _without_master(self, found: ReplicaSet, asker: int, why: str) -> ReplicaSet:
        if asker != ANYBODY or found.master is None:
            return found
        log.warning("no master can be elected", was=found.master, in_sync=sorted(found.in_sync), why=why)
        return led_by_nobody(found, now_ms=self._clock.now_ms(), why=why)

    def _notify(self, record: ControlledSet, content: ReplicaSet) -> None:
        """Tell all brokers of the set that are there. They would find out by themselves, within seconds."""
        if not self._live.config.notify_broker_role_changed:
            return
        for replica, place in content.replicas.items():
            if self._heard.is_alive(ReplicaId(record.cluster, record.name, replica)):
                task = asyncio.get_running_loop().create_task(self._notify_one(place.address, content))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _notify_one(self, address: str, content: ReplicaSet) -> None:
        header = ElectedMaster(
            master_address=content.master_address,
            master_broker_id=content.master,
            master_epoch=content.epoch,
            sync_state_set_epoch=content.set_epoch,
        )
        body = SyncStateSet(sync_state_set=sorted(content.in_sync), sync_state_set_epoch=content.set_epoch)
        notice = Command(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, fields=header.to_fields(), body=encode_body(body))
        try:
            await self._client.send(address, notice)
        except CallFailed as fault:
            log.warning("broker not told who is master", address=address, reason=str(fault))

    async def close(self) -> None:
        """Cancel what is under way: brokers ask by themselves too."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
