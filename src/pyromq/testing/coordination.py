"""The simulations' coordination store: etcd's promises, and the worst of what they allow, by a seed.

    store = SimulatedCoordination(clock, rng)
    coordination = store.member("a")          # what one node is handed in place of `EtcdCoordination`
    coordination.faults = CoordinationFaults(late=0.1)

Requests and answers take time, may be lost, and a change may be carried out long after its sender has given up. Leases
last at least their time. Watches skip. `tests/coordination/contract.py` holds it to the same words as etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..ambient import Clock, Random, Timer
from ..coordination.store import (
    ABSENT,
    ChangeOutcome,
    CoordinationUnreachable,
    Lease,
    Put,
    Snapshot,
    StoredKey,
    Verdict,
)

T = TypeVar("T")


@dataclass(slots=True)
class CoordinationFaults:
    """How bad the way between one node and the store is; the chances are of each request."""

    delay_s: tuple[float, float] = (0.0005, 0.003)  # of a request, and again of its answer
    lost: float = 0.0  # the request never arrives
    unanswered: float = 0.0  # it is carried out, the answer is lost
    late: float = 0.0  # the request arrives when its sender has given up
    late_s: float = 10.0  # at most
    is_reachable: bool = True
    give_up_s: float = 1.0


@dataclass(slots=True, eq=False)
class SimulatedLease:
    """A lease in the simulated store."""

    member: CoordinationMember
    number: int
    ttl_s: float
    timer: Timer | None = None

    async def renew(self) -> bool:
        return await self.member.ask(lambda: self.member.store.renew(self))

    async def release(self) -> None:
        await self.member.ask(lambda: self.member.store.end_lease(self))


@dataclass(slots=True)
class SimulatedCoordination:
    """The store itself; its methods are what arrives there, each in one step."""

    clock: Clock
    rng: Random
    keys: dict[str, StoredKey] = field(default_factory=dict)
    revision: int = 1
    has_quorum: bool = True
    on_change: Callable[[], object] = lambda: None  # after each step that changed a key
    _leases: dict[int, SimulatedLease] = field(default_factory=dict)
    _held: dict[str, int] = field(default_factory=dict)  # key to the number of its lease
    _changes: list[tuple[int, str]] = field(default_factory=list)
    _watchers: list[asyncio.Event] = field(default_factory=list)
    _last_lease: int = 0

    def member(self, name: str) -> CoordinationMember:
        return CoordinationMember(self, name)

    def read(self, prefix: str) -> Snapshot:
        return Snapshot({key: found for key, found in self.keys.items() if key.startswith(prefix)}, self.revision)

    def change(self, expect: Mapping[str, int], puts: Sequence[Put], deletes: Collection[str]) -> ChangeOutcome:
        versions = {key: found.version for key, found in self.keys.items()}
        if any(versions.get(key, ABSENT) != version for key, version in expect.items()):
            return ChangeOutcome(Verdict.CONFLICT)
        leases = {put.key: put.lease.number for put in puts if isinstance(put.lease, SimulatedLease)}
        if any(number not in self._leases for number in leases.values()):
            return ChangeOutcome(Verdict.CONFLICT)
        for put in puts:
            self._held.pop(put.key, None)
        self._held.update(leases)
        self._apply({put.key: put.value for put in puts}, [key for key in deletes if key in self.keys])
        return ChangeOutcome(Verdict.DONE, self.revision)

    def hold(self, member: CoordinationMember, ttl_s: float) -> SimulatedLease:
        self._last_lease += 1
        lease = self._leases[self._last_lease] = SimulatedLease(member, self._last_lease, ttl_s)
        self.renew(lease)
        return lease

    def renew(self, lease: SimulatedLease) -> bool:
        if lease.number not in self._leases:
            return False
        if lease.timer is not None:
            lease.timer.cancel()
        longer_s = lease.ttl_s * (1 + self.rng.random())  # never shorter: a leader of etcd's own may have changed
        lease.timer = self.clock.call_later(longer_s, self._expire, lease)
        return True

    def end_lease(self, lease: SimulatedLease) -> None:
        if self._leases.pop(lease.number, None) is None:
            return
        if lease.timer is not None:
            lease.timer.cancel()
        gone = [key for key, number in self._held.items() if number == lease.number]
        for key in gone:
            del self._held[key]
        self._apply({}, gone)

    def changed_since(self, prefix: str, after: int) -> int:
        """Return the revision of the last change below the prefix, `after` if there is none behind it."""
        for revision, key in reversed(self._changes):
            if revision <= after:
                break
            if key.startswith(prefix):
                return revision
        return after

    def add_watcher(self) -> asyncio.Event:
        self._watchers.append(asyncio.Event())
        return self._watchers[-1]

    def remove_watcher(self, watcher: asyncio.Event) -> None:
        self._watchers.remove(watcher)

    def _expire(self, lease: SimulatedLease) -> None:
        if self.has_quorum:
            self.end_lease(lease)
        else:
            lease.timer = self.clock.call_later(lease.ttl_s, self._expire, lease)

    def _apply(self, puts: Mapping[str, bytes], deletes: Sequence[str]) -> None:
        if not puts and not deletes:
            return
        self.revision += 1
        for key, value in puts.items():
            self.keys[key] = StoredKey(value, self.revision)
        for key in deletes:
            del self.keys[key]
            self._held.pop(key, None)
        self._changes += [(self.revision, key) for key in (*puts, *deletes)]
        for watcher in self._watchers:
            watcher.set()
        self.on_change()


@dataclass(slots=True)
class CoordinationMember:
    """Implements `Coordination` for one node."""

    store: SimulatedCoordination
    name: str
    faults: CoordinationFaults = field(default_factory=CoordinationFaults)

    async def read(self, prefix: str) -> Snapshot:
        return await self.ask(lambda: self.store.read(prefix))

    async def change(
        self, expect: Mapping[str, int], puts: Sequence[Put] = (), deletes: Collection[str] = ()
    ) -> ChangeOutcome:
        try:
            return await self.ask(lambda: self.store.change(expect, puts, deletes))
        except CoordinationUnreachable:
            return ChangeOutcome(Verdict.UNKNOWN)

    async def hold(self, ttl_s: float) -> Lease:
        return await self.ask(lambda: self.store.hold(self, ttl_s))

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[int]:
        seen = after
        woken = self.store.add_watcher()
        try:
            while True:
                await self.store.clock.sleep(self._delay())
                changed = self.store.changed_since(prefix, seen) if self._is_served() else seen
                if changed > seen:
                    seen = changed
                    yield seen
                elif self._is_served():
                    woken.clear()
                    await woken.wait()
                else:
                    await self.store.clock.sleep(self.faults.give_up_s)
        finally:
            self.store.remove_watcher(woken)

    async def ask(self, act: Callable[[], T]) -> T:
        """Carry out a request at the store, with this node's faults. Raises CoordinationUnreachable."""
        faults, rng, clock = self.faults, self.store.rng, self.store.clock
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        is_answered = rng.random() >= faults.unanswered

        def arrive() -> None:
            if not self._is_served():
                return
            found = act()
            if is_answered:
                clock.call_later(self._delay(), self._return, answered, found)

        chance = rng.random()
        if chance < faults.late:
            clock.call_later(faults.give_up_s + rng.random() * faults.late_s, arrive)
        elif chance >= faults.late + faults.lost:
            clock.call_later(self._delay(), arrive)
        try:
            async with clock.timeout(faults.give_up_s):
                return await answered
        except TimeoutError:
            raise CoordinationUnreachable(f"the store did not answer {self.name} in time") from None

    def _return(self, answered: asyncio.Future[T], found: T) -> None:
        if not answered.done() and self._is_served():
            answered.set_result(found)

    def _is_served(self) -> bool:
        return self.faults.is_reachable and self.store.has_quorum

    def _delay(self) -> float:
        return self.store.rng.uniform(*self.faults.delay_s)
