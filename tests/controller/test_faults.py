"""Two controllers and three brokers on virtual time, under a seed: brokers that come and go, a coordination store that
loses answers and carries changes out late, controllers that are cut off from it. After every change of the store: an
epoch has one master, epochs never sink, no id is given out twice. When all is mended the set has a master again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.controller.controlled_sets import ControlledSet, ControlledSets
from pyromq.controller.replica_set import ReplicaSet
from pyromq.coordination.store import ChangeOutcome, Put
from pyromq.errors import CallFailed
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.coordination import CoordinationFaults
from pyromq.testing.virtual_time import VirtualClock, run_virtually
from tests.controller.world import CLUSTER, NAME, LedBroker, World

KEY = f"/pyromq/{CLUSTER}/{NAME}/controlled"
CONTROLLERS = ("n0", "n1")
FAULTY_S = 120.0


class Invariants:
    """Looks at the set after every change of the store."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._masters: dict[int, int | None] = {}
        self._sets: dict[int, list[int]] = {}
        self._codes: dict[str, str] = {}
        self._last = (0, 0)
        self.epochs = 0
        self.broken: list[str] = []
        world.store.on_change = self._note

    def _note(self) -> None:
        try:
            self._look()
        except AssertionError as fault:  # within a callback of the loop, which would only log it
            self.broken.append(str(fault))

    def _look(self) -> None:
        stored = self._world.store.keys.get(KEY)
        if stored is None:
            return
        found: dict[str, Any] = json.loads(stored.value)
        epochs = (found["epoch"], found["setEpoch"])
        assert epochs >= self._last, f"{epochs} after {self._last}"
        self._last = epochs
        assert self._masters.setdefault(found["epoch"], found["master"]) == found["master"]
        assert self._sets.setdefault(found["setEpoch"], found["inSync"]) == found["inSync"]
        assert found["master"] is None or found["master"] in found["inSync"]
        for replica, known in found["replicas"].items():
            assert self._codes.setdefault(replica, known["checkCode"]) == known["checkCode"]
        self.epochs = len(self._masters)


class Life:
    """One broker that registers, speaks each second, asks for a master, joins the in-sync set, and dies at times."""

    def __init__(self, world: World, replica: int, rng: random.Random) -> None:
        self.broker = LedBroker(world, replica)
        self._world, self._rng = world, rng
        self.is_up = True

    async def run(self) -> None:
        while True:
            try:
                async with self._world.clock.timeout(5):
                    await self._once()
            except (TimeoutError, CallFailed, AssertionError):
                pass  # the next controller, or later
            await self._world.clock.sleep(1 + self._rng.random())

    async def _once(self) -> None:
        if not self.is_up:
            return
        answer = None
        for name in CONTROLLERS:
            self.broker.talk = await self._world.talk(name)
            await self.broker.heartbeat()
            found = await self.broker.ask(Code.CONTROLLER_GET_METADATA_INFO)
            if found.fields.get("isLeader") == "true":
                answer = await self.broker.join(name)
        if answer is not None and answer.fields.get("masterBrokerId") == str(self.broker.replica):
            epoch, set_epoch = int(answer.fields["masterEpoch"]), int(answer.fields["syncStateSetEpoch"])
            await self.broker.alter([1, 2, 3], epoch=epoch, set_epoch=set_epoch)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_recorded_stays_true_under_faults(tmp_path: Path, seed: int) -> None:
    found = play(tmp_path, seed)
    assert found.broken == []
    assert found.epochs > 1


def test_a_change_that_compares_no_version_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(self: ControlledSets, record: ControlledSet, content: ReplicaSet | None) -> ChangeOutcome:
        puts = [] if content is None else [Put(record.key, content.encode())]
        return await self._coordination.change({}, puts)

    monkeypatch.setattr(ControlledSets, "_write", write)
    assert any(play(tmp_path / str(seed), seed).broken for seed in range(10))


def play(folder: Path, seed: int) -> Invariants:
    async def run(clock: VirtualClock) -> Invariants:
        rng = random.Random(seed)
        world = World(clock, folder)
        for name in CONTROLLERS:
            await world.start(name)
        invariants = Invariants(world)
        lives = [Life(world, replica, rng) for replica in (1, 2, 3)]
        tasks = [asyncio.get_running_loop().create_task(life.run()) for life in lives]
        await trouble(world, lives, rng)
        for member in world.members.values():
            member.faults = CoordinationFaults()
        for life in lives:
            life.is_up = True
        await until(clock, lambda: has_living_master(world, lives))
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await world.close()
        return invariants

    return run_virtually(run)


async def trouble(world: World, lives: list[Life], rng: random.Random) -> None:
    end = world.clock.monotonic() + FAULTY_S
    while world.clock.monotonic() < end:
        await world.clock.sleep(rng.uniform(0.5, 6))
        member = world.members[rng.choice(CONTROLLERS)]
        member.faults = CoordinationFaults(
            late=rng.choice((0.0, 0.4)),
            late_s=20.0,
            unanswered=rng.choice((0.0, 0.2)),
            is_reachable=rng.random() > 0.2,
        )
        life = rng.choice(lives)
        life.is_up = rng.random() > 0.4
        if not life.is_up and life.broker.talk is not None:
            life.broker.die()


def has_living_master(world: World, lives: list[Life]) -> bool:
    stored = world.store.keys.get(KEY)
    return stored is not None and json.loads(stored.value)["master"] in {life.broker.replica for life in lives}


async def until(clock: VirtualClock, found: Callable[[], bool]) -> None:
    for _ in range(600):
        if found():
            return
        await clock.sleep(0.5)
    raise AssertionError("the set has no master though all is mended")
