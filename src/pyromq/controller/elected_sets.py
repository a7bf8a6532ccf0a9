"""Sets that elect their masters themselves, over the same coordination store: what a controller answers of them.

A controller leads none of them. It shows them to administrators (1004, 1006), hands on their wishes (1002, 1011), and
keeps brokers in controller mode from making a second set of the same name. Who knows their keys is handed in.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..errors import PyroError, RequestRefused
from ..model.codes import ResponseCode as Code


class ElectedReplica(NamedTuple):
    """One replica. `epoch` and `end` of its log are known of those that are alive."""

    id: int
    address: str
    is_in_sync: bool
    is_alive: bool
    epoch: int | None = None
    end: int | None = None


class ElectedView(NamedTuple):
    """A set as the coordination store has it."""

    cluster: str
    name: str
    master: int
    epoch: int
    set_epoch: int
    minimum: int
    switched_ms: int
    switched_why: str
    replicas: tuple[ElectedReplica, ...]

    @property
    def master_address(self) -> str | None:
        return next((one.address for one in self.replicas if one.id == self.master), None)

    @property
    def in_sync(self) -> list[int]:
        return sorted(one.id for one in self.replicas if one.is_in_sync)


class ElectedSets(Protocol):
    """Event loop only. All of it raises PyroError, which says why something is not done."""

    async def named(self, name: str) -> list[ElectedView]:
        """Return the sets of this name, of all clusters."""
        ...

    async def addresses(self) -> list[str]:
        """Return where all replicas of all sets are."""
        ...

    async def switch(self, found: ElectedView, replica: int, wait_s: float) -> ElectedView:
        """Let a replica become master, and return the set once it is."""
        ...

    async def forget(self, found: ElectedView, replica: int) -> None:
        """Take a replica that is gone for good out of the set."""
        ...


class NoElectedSets:
    """Where nobody looks for them: there is none to switch, nor to forget a replica of."""

    async def named(self, name: str) -> list[ElectedView]:
        return []

    async def addresses(self) -> list[str]:
        return []

    async def switch(self, found: ElectedView, replica: int, wait_s: float) -> ElectedView:
        raise _unknown(found)

    async def forget(self, found: ElectedView, replica: int) -> None:
        raise _unknown(found)


def _unknown(found: ElectedView) -> PyroError:
    return PyroError(f"this controller looks for no elected sets, so {found.name} is not known to it")


async def find_elected(sets: ElectedSets, name: str, cluster: str | None = None) -> ElectedView | None:
    """Return the elected set of this name; None: there is none. RequestRefused: more than one cluster has one."""
    found = [one for one in await sets.named(name) if not cluster or one.cluster == cluster]
    if len(found) > 1:
        clusters = ", ".join(one.cluster for one in found)
        raise RequestRefused(
            f"{name} is the name of sets in {clusters}: say which cluster", Code.CONTROLLER_INVALID_REQUEST
        )
    return found[0] if found else None


async def refuse_elected(sets: ElectedSets, name: str, cluster: str) -> None:
    """Raise RequestRefused if a broker in controller mode has the name of a set that elects its master itself."""
    if await find_elected(sets, name, cluster) is not None:
        raise RequestRefused(
            f"{name} in {cluster} is a set that elects its master over etcd: start this broker with etcdEndpoints, or "
            "with another brokerName",
            Code.CONTROLLER_INVALID_REQUEST,
        )
