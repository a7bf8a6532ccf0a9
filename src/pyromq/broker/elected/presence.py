"""What a replica says of itself in the coordination store, under a lease that vanishes when it is gone."""

from __future__ import annotations

from collections.abc import Callable

from ...coordination.store import ABSENT, Coordination, Lease, Put, Verdict
from ..election.candidacy import ReplicaSeen
from .seams import Timings
from .set_keys import SetKeys, encode_seen


class ReplicaPresence:
    """Event loop only. `seen` returns what is true of this replica now."""

    def __init__(
        self, coordination: Coordination, keys: SetKeys, me: int, timings: Timings, seen: Callable[[], ReplicaSeen]
    ) -> None:
        self._coordination, self._keys, self._me, self._timings = coordination, keys, me, timings
        self._seen = seen
        self.lease: Lease | None = None
        self._said: tuple[Lease, ReplicaSeen] | None = None
        self._entry_version = ABSENT

    async def renew(self) -> Lease:
        """Keep the lease, or take a new one, and say how this replica is. Raises CoordinationUnreachable."""
        lease = self.lease
        if lease is not None and not await lease.renew():
            lease = self.lease = None
        if lease is None:
            lease = self.lease = await self._coordination.hold(self._timings.ttl_s)
        await self._say_alive(lease)
        return lease

    async def say_now(self) -> None:
        """Say how this replica is, without waiting for the next renewal. Raises CoordinationUnreachable."""
        if self.lease is not None:
            await self._say_alive(self.lease)

    @property
    def said(self) -> ReplicaSeen | None:
        """Return what the store has of this replica, as far as is known."""
        return None if self._said is None else self._said[1]

    def entry(self, lease: Lease, seen: ReplicaSeen) -> Put:
        return Put(self._keys.alive(self._me), encode_seen(seen), lease)

    async def _say_alive(self, lease: Lease) -> None:
        """Write this replica's entry, by its version: one that was sent before may not come behind this one."""
        seen = self._seen()
        if self._said == (lease, seen):
            return
        key = self._keys.alive(self._me)
        outcome = await self._coordination.change({key: self._entry_version}, [self.entry(lease, seen)])
        if outcome.verdict is Verdict.DONE:
            self._entry_version, self._said = outcome.revision, (lease, seen)
        else:
            self._entry_version = await self._read_version()

    async def say_moving(self) -> bool:
        """Take back, durably, that the log of this replica stands. False: the store did not say that it is done."""
        lease = self.lease
        if lease is None:
            return False
        self._said = None
        version = await self._read_version()
        moving = self._seen()._replace(stands=False)
        outcome = await self._coordination.change({self._keys.alive(self._me): version}, [self.entry(lease, moving)])
        if outcome.verdict is not Verdict.DONE:
            return False
        self._entry_version = outcome.revision
        return True

    async def _read_version(self) -> int:
        self._said = None
        key = self._keys.alive(self._me)
        found = (await self._coordination.read(key)).keys.get(key)
        return ABSENT if found is None else found.version
