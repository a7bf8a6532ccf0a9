"""A simulated elected set under one seed: replicas, the store's twin, clients, and what goes wrong."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from pyromq.ambient import seeded_random
from pyromq.broker.election.set_state import SetState, decode_state
from pyromq.testing.coordination import CoordinationFaults, SimulatedCoordination
from pyromq.testing.virtual_time import VirtualClock, run_virtually
from tests.simulation.checker import AllowedLoss, Checker, Violation
from tests.simulation.network import Network
from tests.simulation.replica import KEYS, Replica

STORM_S = 18.0
CALM_S = 60.0  # by then a whole set without faults has a master that acknowledges


@dataclass(frozen=True)
class SeedResult:
    """What one seed gave. `trace` is equal for two runs of one seed."""

    seed: int
    trace: str
    violation: str | None
    acks: int
    elections: int
    is_loss_allowed: bool


class World:
    """See the file's head."""

    def __init__(self, clock: VirtualClock, seed: int, kind: type[Replica]) -> None:
        self.clock = clock
        self.rng = seeded_random(seed)
        self._trace = hashlib.sha256(b"%d" % seed)
        self.acks_synced = self.rng.random() < 0.3
        self.hiccups = self.rng.choice([0.0, 0.005, 0.02])
        size = self.rng.choice([3, 3, 3, 4, 5])
        self.minimum = self.rng.choice([1, 2, 2, 2])
        self.flush_s = self.rng.choice([0.3, 0.3, 4.0])
        self._is_dark = self.rng.random() < 0.5  # power cuts happen
        self.store = SimulatedCoordination(clock, self.rng)
        self.network = Network(clock, self.rng)
        self.replicas = [kind(self, number) for number in range(1, size + 1)]
        self.checker = Checker({each.me: each.disk for each in self.replicas}, self.recorded)
        self.store.on_change = self._state_changed
        self.store_faults = CoordinationFaults(
            lost=self.rng.choice([0.0, 0.03]), unanswered=self.rng.choice([0.0, 0.05, 0.25]),
            late=self.rng.choice([0.0, 0.05, 0.25]), late_s=self.rng.choice([0.5, 3.0, 10.0]),
        )  # fmt: skip
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._value = 0

    def recorded(self) -> SetState | None:
        """Return the state that the store has, whoever knows of it."""
        found = self.store.keys.get(KEYS.state)
        return None if found is None else decode_state(found.value)

    def _state_changed(self) -> None:
        try:
            self.checker.check()
        except Violation as fault:
            self._fail(fault)

    def note(self, event: str) -> None:
        """Add an event to the trace."""
        self._trace.update(f"{self.clock.monotonic():.9f} {event}\n".encode())

    def spawn(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guarded(part))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        task.add_done_callback(lambda _: part.close())  # one that was cancelled before it began
        return task

    async def _guarded(self, part: Coroutine[Any, Any, None]) -> None:
        try:
            await part
        except Exception as fault:  # whatever it is, it ends the run with this as its result
            self._fail(fault)

    def _fail(self, fault: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(fault)

    async def run(self) -> None:
        """Run storm and calm. Raises what went wrong first."""
        for replica in self.replicas:
            replica.member.faults = CoordinationFaults()
            replica.start()
        self.spawn(self._story())
        for number in range(2):
            self.spawn(self._write(number))
        self.spawn(self._read())
        try:
            await self._over
        finally:
            for replica in self.replicas:
                replica.kill(power=False)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _story(self) -> None:
        await self.clock.sleep(1.0)
        for replica in self.replicas:
            replica.member.faults = CoordinationFaults(**{name: getattr(self.store_faults, name) for name in _FAULTS})
        while self.clock.monotonic() < STORM_S:
            await self.clock.sleep(self.rng.random() * 1.2)
            self._strike_anybody()
        self._mend()
        for replica in self.replicas:
            replica.paused_until = 0.0
            replica.member.faults = CoordinationFaults()
            if not replica.is_up:
                replica.start()
        self.hiccups = 0.0
        acks = self.checker.acks
        while self.checker.acks < acks + 5:
            await self.clock.sleep(0.5)
            if self.clock.monotonic() > STORM_S + CALM_S:
                raise Violation(f"nobody acknowledges, {CALM_S:g} s after all is mended: {self.recorded()}")
        if not self._over.done():
            self._over.set_result(None)

    def has_new_master(self, replica: Replica) -> None:
        """Let some masters fail at their very beginning."""
        if self.rng.random() < 0.3 and self.clock.monotonic() < STORM_S:
            event = self.rng.choice(["kill", "power", "isolate", "mute", "pause"])
            self.clock.call_later(self.rng.random() * 0.2, self._strike, replica, event)

    def has_unknown_change(self) -> None:
        """Let somebody fail while nobody knows which set the store has."""
        if self.rng.random() < 0.5:
            self._strike(self.rng.choice(self.replicas), self.rng.choice(["kill", "isolate", "pause"]))

    def _strike_anybody(self) -> None:
        masters = [each for each in self.replicas if each.master is not None]
        is_master = bool(masters) and self.rng.random() < 0.4
        self._strike(self.rng.choice(masters if is_master else self.replicas), self.rng.choice(_EVENTS))

    def _strike(self, victim: Replica, event: str) -> None:
        if self.clock.monotonic() >= STORM_S:
            return
        length_s = self.rng.random() ** 2 * 8
        self.note(f"{event} {victim.me} {length_s:.3f}")
        others = [each.me for each in self.replicas if each is not victim]
        match event:
            case "pause":
                victim.paused_until = self.clock.monotonic() + length_s
            case "kill" | "power" if victim.is_up:
                self._stop(victim, power=event == "power" and self._is_dark)
            case "all-power" if self._is_dark and self.rng.random() < 0.2:
                for each in self.replicas:
                    if each.is_up:
                        self._stop(each, power=True)
            case "isolate":
                self.network.cuts |= {(victim.me, other) for other in others}
                self.network.cuts |= {(other, victim.me) for other in others}
            case "one-way":
                other = self.rng.choice(others)
                self.network.cuts.add(self.rng.choice([(victim.me, other), (other, victim.me)]))
            case "mend":
                self._mend()
            case "mute":  # hears the others, and is heard by nobody
                self.network.cuts |= {(victim.me, other) for other in others}
                victim.member.faults.is_reachable = False
            case "store-cut":
                victim.member.faults.is_reachable = False
            case "quorum":
                self.store.has_quorum = not self.store.has_quorum
            case "clock":
                victim.rate = self.rng.choice([0.5, 1.0, 2.0, 20.0])  # the last one stands nearly still
            case "slow":
                self.network.delay_s = self.rng.choice([0.001, 0.005, 0.1])

    def _stop(self, victim: Replica, *, power: bool) -> None:
        victim.kill(power=power)
        self.clock.call_later(self.rng.random() * 3, self._restart, victim)

    def _restart(self, victim: Replica) -> None:
        if not victim.is_up and not self._over.done():
            self.note(f"start {victim.me}")
            victim.start()

    def _mend(self) -> None:
        self.network.cuts.clear()
        self.network.delay_s = 0.002
        self.store.has_quorum = True
        for replica in self.replicas:
            replica.member.faults.is_reachable = True
            replica.rate = 1.0

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _write(self, number: int) -> None:
        while True:
            await self.clock.sleep(self.rng.random() * 0.15)
            believed = [each for each in self.replicas if each.master is not None]
            if not believed:
                continue
            target = self.rng.choice(believed)
            self._value += 1
            reply = target.append(self._value)
            if reply is None:
                continue
            try:
                async with self.clock.timeout(1.0):
                    is_acked = await reply
            except TimeoutError:
                continue
            self.note(f"client {number}: {self._value} {is_acked}")

    async def _read(self) -> None:
        while True:
            await self.clock.sleep(self.rng.random() * 0.2)
            target = self.rng.choice(self.replicas)
            if target.is_up:
                self.checker.show(target.me, target.readable)


_FAULTS = ("lost", "unanswered", "late", "late_s")
_EVENTS = (
    "pause", "pause", "kill", "kill", "power", "power", "all-power", "isolate", "one-way", "one-way", "mend", "mend",
    "mend", "store-cut", "mute", "quorum", "clock", "slow",
)  # fmt: skip


def run_seed(seed: int, kind: type[Replica] = Replica) -> SeedResult:
    """Run one seed to its end, or to the first promise that is broken."""
    worlds: list[World] = []

    async def main(clock: VirtualClock) -> tuple[str | None, bool]:
        worlds.append(World(clock, seed, kind))
        try:
            await worlds[0].run()
        except AllowedLoss:
            return None, True
        except Exception as fault:  # a rule of the product that raises is found, too
            return f"{type(fault).__name__}: {fault}", False
        return None, False

    violation, is_loss_allowed = run_virtually(main)
    world = worlds[0]
    world.note(f"{violation} {len(world.checker.promised)}")
    trace = world._trace.hexdigest()
    return SeedResult(seed, trace, violation, world.checker.acks, world.checker.elections, is_loss_allowed)
