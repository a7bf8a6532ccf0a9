"""The routes that a session knows: one request for all who ask at once, and more seldom while looking changes nothing.

A route stays until a newer one is read: its brokers may be back before a name server says so. The session reads all of
them from time to time; who finds a master gone reads the route of the one topic that it needs once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from ...ambient import Clock, Random
from ...model.topic import MASTER_ID
from ..core.retry import growing_pause_s
from ..core.routing import Route
from ..errors import Error

FIRST_PAUSE_S = 0.04
FIRST_FULL_PAUSE_S = 0.08
FULL_PAUSE_S = 0.5
FIRST_SHARE = 3  # what was there just now is looked for again after a third of the time for which it is away
SHARE = 8  # what has been away for long is looked for after an eighth of that time
CALM_AFTER_S = 10.0  # a topic that nobody has looked for again for so long is looked for at once the next time


@dataclass(slots=True)
class _Rereads:
    """How often a topic was looked for again in vain, and when the next time is."""

    began: float
    in_vain: int = 0
    not_before: float = float("-inf")


@dataclass(slots=True, eq=False)
class KnownRoutes:
    """Event loop only.

    `ask` has a name server's answer, `learned` is told the route before (None: there was none) and the new one, and
    `is_partial` says of which topics an answer may lack brokers, and so is not kept.
    """

    clock: Clock
    rng: Random
    ask: Callable[[str], Awaitable[Route]]
    learned: Callable[[Route | None, Route], None]
    is_partial: Callable[[str], bool]
    _routes: dict[str, Route] = field(init=False, default_factory=dict)
    _reads: dict[str, asyncio.Task[Route]] = field(init=False, default_factory=dict)
    _rereads: dict[str, _Rereads] = field(init=False, default_factory=dict)
    changes: int = field(init=False, default=0)  # how often a route was another than before
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __contains__(self, topic: object) -> bool:
        return topic in self._routes

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._routes))

    def get(self, topic: str) -> Route | None:
        return self._routes.get(topic)

    async def read(self, topic: str) -> Route:
        """Read a route; all who ask for the same topic meanwhile share one request."""
        task = self._reads.get(topic)
        if task is None:
            task = self._reads[topic] = asyncio.get_running_loop().create_task(self._ask(topic))
            task.add_done_callback(lambda done: self._read(topic, done))
        return await asyncio.shield(task)

    async def _ask(self, topic: str) -> Route:
        return await self.ask(topic)

    def _read(self, topic: str, done: asyncio.Task[Route]) -> None:
        del self._reads[topic]
        if done.cancelled() or done.exception() is not None:
            return
        if not self.is_partial(topic):
            self.learn(done.result())

    def learn(self, route: Route) -> None:
        before = self._routes.get(route.topic)
        self._routes[route.topic] = route
        if before != route:
            self._rereads.pop(route.topic, None)
            self.changes += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            self.learned(before, route)

    async def wait_for_change(self, within_s: float) -> None:
        """Return once a route is another one, or after so many seconds."""
        with suppress(TimeoutError):
            async with self.clock.timeout(within_s):
                await self._changed.wait()

    async def reread(self, topic: str, within_s: float) -> None:
        """Read a route because something failed: at once the first time, then with pauses that grow, chance in them.

        Many sends may ask for it, and many clients lose the same broker at the same moment. Returns at once while it is
        too early for one more question, and after `within_s` at the latest; no answer is no fault.
        """
        if topic not in self._reads and not self._is_time(topic):
            return
        with suppress(Error, TimeoutError):
            async with self.clock.timeout(within_s):
                await self.read(topic)

    def _is_time(self, topic: str) -> bool:
        """Return whether to ask now; if so, the next time is set."""
        now = self.clock.monotonic()
        rereads = self._rereads.get(topic)
        if rereads is None or now > rereads.not_before + CALM_AFTER_S:
            rereads = self._rereads[topic] = _Rereads(began=now)
        if now < rereads.not_before:
            return False
        rereads.in_vain += 1
        away_s = now - rereads.began
        longest = max(FIRST_FULL_PAUSE_S, min(FULL_PAUSE_S, away_s / FIRST_SHARE), away_s / SHARE)
        rereads.not_before = now + growing_pause_s(FIRST_PAUSE_S, longest, rereads.in_vain, self.rng)
        return True

    def brokers(self, with_slaves: bool) -> set[str]:
        """Return the addresses of all brokers of all routes."""
        return {
            address
            for route in self._routes.values()
            for replicas in route.addresses.values()
            for broker_id, address in replicas.items()
            if broker_id == MASTER_ID or with_slaves
        }


def moved_masters(before: Route, after: Route) -> set[str]:
    """Return the addresses of former masters whose broker has its master elsewhere now."""
    return {
        replicas[MASTER_ID]
        for name, replicas in before.addresses.items()
        if MASTER_ID in replicas and after.master(name) not in (None, replicas[MASTER_ID])
    }


def brings_brokers(before: Route, after: Route) -> bool:
    """Return whether a route names an address that the one before did not, or a master that was none.

    Producers are not known to slaves: a new master could ask none of them about its half messages."""
    known = {address for replicas in before.addresses.values() for address in replicas.values()}
    masters = {replicas.get(MASTER_ID) for replicas in before.addresses.values()}
    return any(
        address not in (masters if broker_id == MASTER_ID else known)
        for replicas in after.addresses.values()
        for broker_id, address in replicas.items()
    )
