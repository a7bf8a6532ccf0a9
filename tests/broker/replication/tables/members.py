"""Members of an elected set without the election: brokers on virtual time whose logs the test streams and confirms.

A role change is what it is in the product: the broker is closed, and opened again on the same disk with another role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.broker.config import BrokerConfig
from pyromq.broker.replication.settings import BrokerRole
from pyromq.store.cutting import begin_cut, finish_cut, plan_cut
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.running import SMALL
from tests.broker.virtual import QUIET, START_MS, Virtual, virtual_broker

FOLLOWS = {"broker_role": BrokerRole.SLAVE, "broker_id": 1}
NAMES = {"broker_name": "broker-a", "listen_port": 0}


class Members:
    """Disks of members by name, and lives of brokers on them."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = ManualClock(START_MS)
        self._folder, self._settings = folder, settings
        self.disks: dict[str, SimulatedDisk] = {}
        self._gated: set[Virtual] = set()

    def disk(self, name: str) -> SimulatedDisk:
        return self.disks.setdefault(name, SimulatedDisk(now_ms=self.clock.now_ms))

    @asynccontextmanager
    async def master(
        self, name: str, *, gated: bool = True, killed: bool = False, **settings: Any
    ) -> AsyncIterator[Virtual]:
        """One life as master. `gated`: nothing that it appends is readable before `stream` confirms it."""
        async with self._life(name, killed=killed, **settings) as life:
            if gated:
                self._gated.add(life)
                life.broker.store.confirm(life.broker.store.commit_log.end)
            yield life

    @asynccontextmanager
    async def follower(self, name: str, *, killed: bool = False, **settings: Any) -> AsyncIterator[Virtual]:
        async with self._life(name, killed=killed, **(FOLLOWS | settings)) as life:
            yield life

    @asynccontextmanager
    async def _life(self, name: str, *, killed: bool, **settings: Any) -> AsyncIterator[Virtual]:
        async with virtual_broker(
            self._folder / name,
            self.disk(name),
            self.clock,
            killed=killed,
            tables_in_log=True,
            **(self._settings | settings),
        ) as life:
            yield life
        if killed:
            self.disks[name] = self.disk(name).kill()

    async def stream(self, master: Virtual, follower: Virtual, confirm: bool = True) -> None:
        """Bring the follower's log to where the master's is. `confirm`: the set has it then, and both know."""
        copy(master, follower)
        if confirm:
            end = follower.broker.store.commit_log.end
            if master in self._gated:
                master.broker.store.confirm(end)
            tables = follower.broker.follower_tables
            assert tables is not None
            tables.following.confirm(end)
        await self.clock.settle()

    def cut(self, name: str, position: int) -> None:
        """Cut the log of a member that is closed, as a replica does before it follows another master."""
        config = BrokerConfig(**(SMALL | QUIET | NAMES | {"store_path_root_dir": self._folder / name}))
        MessageStore(self.disk(name), config, self.clock).close()  # what is cut was stopped cleanly
        begin_cut(self.disk(name), config, plan_cut(self.disk(name), config, position))
        finish_cut(self.disk(name), config, self.clock)


def copy(master: Virtual, follower: Virtual, until: int | None = None) -> None:
    """Stream the master's log up to its end, or to a place."""
    log, following = master.broker.store.commit_log, follower.broker.store.following
    following.restart()
    end = log.end if until is None else until
    while following.position < end:
        at = following.position
        data = log.read(at, min(end, at - at % log.file_bytes + log.file_bytes) - at)
        following.take(at, data)
