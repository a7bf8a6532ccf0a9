"""Which of several controllers leads: the holder of a key with a lease. The others say who it is.

    /pyromq/.controllers/GROUP/leader      who leads, under its lease
    /pyromq/.controllers/GROUP/peers/ID    every controller that runs, under its lease

Nothing hangs on there being one leader only: what controllers change they change by versions. It decides who acts.
"""

from __future__ import annotations

import msgspec

from .. import logs
from ..ambient import Clock
from ..coordination.store import (
    ABSENT,
    Coordination,
    CoordinationRefused,
    CoordinationUnreachable,
    Lease,
    Put,
    Snapshot,
)
from ..errors import ConfigError

log = logs.get("pyromq.controller")

LEASE_S = 3.0
RENEWAL_S = 1.0


class ControllerPlace(msgspec.Struct, frozen=True):
    """A controller by its name among the others, and where brokers reach it."""

    id: str
    address: str


class Leadership:
    """Event loop only. `keep` is the loop; what it found out last is in the properties."""

    def __init__(self, coordination: Coordination, clock: Clock, group: str, prefix: str) -> None:
        """`prefix`: what all keys begin with."""
        self.group = group
        self.leader: ControllerPlace | None = None
        self.peers: dict[str, ControllerPlace] = {}
        self._me: ControllerPlace | None = None  # until it has joined: its address is known when it listens
        self._coordination = coordination
        self._clock = clock
        self._prefix = f"{prefix.rstrip('/')}/.controllers/{group}/"
        self._lease: Lease | None = None
        self._until = float("-inf")  # monotonic: our lease lives at least as long

    @property
    def leads(self) -> bool:
        """Return whether this controller acts: it is the leader, and its lease cannot be over."""
        return self.leader is not None and self.leader == self._me and self._clock.monotonic() < self._until

    async def join(self, me: ControllerPlace) -> None:
        """Take part, once. ConfigError if another controller has the same name."""
        key = self._key_of(me)
        found = _decoded((await self._coordination.read(key)).keys.get(key))
        if found is not None and found.address != me.address:
            raise ConfigError(
                f"controllerDLegerSelfId = {me.id}: the controller at {found.address} has this name; give each "
                "controller of a group its own"
            )
        self._me = me
        await self._renew(me)

    async def keep(self) -> None:
        """Run until cancelled, after `join`: renew the lease, lead where nobody does."""
        while self._me is not None:
            await self._clock.sleep(RENEWAL_S)
            try:
                await self._renew(self._me)
            except (CoordinationUnreachable, CoordinationRefused) as fault:
                log.warning("the coordination store cannot be asked who leads", fault=str(fault))

    async def _renew(self, me: ControllerPlace) -> None:
        """Renew our lease, say that we are there, see who leads, and lead if nobody does."""
        asked = self._clock.monotonic()
        if self._lease is None or not await self._lease.renew():
            self._lease = await self._coordination.hold(LEASE_S)
        self._until = asked + LEASE_S
        found = await self._coordination.read(self._prefix)
        missing = [key for key in (self._key_of(me), self._leader_key) if key not in found.keys]
        for key in missing:
            await self._claim(key, me, self._lease)
        self._note(await self._coordination.read(self._prefix) if missing else found)

    async def leave(self) -> None:
        """End the lease, so that another leads at once."""
        lease, self._lease, self._until = self._lease, None, float("-inf")
        if lease is not None:
            await lease.release()

    async def _claim(self, key: str, me: ControllerPlace, lease: Lease) -> None:
        """Put an entry under our lease, unless there is one. Who was faster is read then."""
        await self._coordination.change({key: ABSENT}, [Put(key, msgspec.json.encode(me), lease)])

    def _note(self, found: Snapshot) -> None:
        leader = _decoded(found.keys.get(self._leader_key))
        if leader != self.leader:
            log.info("controllers are led", by=leader.address if leader else "nobody")
        self.leader = leader
        places = [_decoded(stored) for key, stored in sorted(found.keys.items()) if key != self._leader_key]
        self.peers = {place.id: place for place in places if place is not None}

    @property
    def _leader_key(self) -> str:
        return f"{self._prefix}leader"

    def _key_of(self, place: ControllerPlace) -> str:
        return f"{self._prefix}peers/{place.id}"


def _decoded(stored: object) -> ControllerPlace | None:
    value = getattr(stored, "value", None)
    try:
        return None if value is None else msgspec.json.decode(value, type=ControllerPlace)
    except msgspec.DecodeError as fault:
        raise CoordinationRefused(f"a controller's entry in the coordination store cannot be read: {fault}") from None
