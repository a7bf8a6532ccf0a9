"""A checker that knows every send, recall and time, on virtual time under random kills and power cuts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, Virtual, virtual_broker

SETTINGS: dict[str, Any] = {
    "recall_message_enable": True,
    "timer_roll_window_slot": 30,
    "timer_wheel_slots": 600,
    "commit_log_file_bytes": 1 << 16,
    "timer_log_file_bytes": 4096,
    "max_log_bytes": 3 << 16,
    "files_per_round": 100,
    "pause_ms": 0,
}


class Checker:
    """What was asked for, and what must come of it."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.due: dict[str, int] = {}
        self._handles: dict[str, str] = {}
        self.recalled: set[str] = set()

    async def act(self, life: Virtual) -> None:
        """Some sends, perhaps a recall, and some time."""
        for _ in range(self._rng.randrange(6)):
            body = f"m{len(self.due)}"
            delay_ms = self._rng.choice((1, 700, 1000, 5000, 25_000, 31_000, 90_000, 200_000))
            pairs = {"TIMER_DELAY_MS": str(delay_ms), "UNIQ_KEY": f"id-{body}"}
            answer = await life.send(body=body.encode(), properties=pairs)
            assert answer.code == 0
            self.due[body] = life.clock.now_ms() + delay_ms
            self._handles[body] = answer.fields["recallHandle"]
        if self._rng.random() < 0.4 and self.due:
            body = self._rng.choice(list(self.due))
            fields: dict[str, Any] = {"producerGroup": "P", "topic": "T", "recallHandle": self._handles[body]}
            if (await life.call(RequestCode.RECALL_MESSAGE, **fields)).code == 0:
                self.recalled.add(body)
        if self._rng.random() < 0.3:
            for _ in range(8):
                await life.send(topic="Fill", body=bytes(4000))  # so that log files go
        await life.advance(self._rng.choice((0.0, 0.3, 1.0, 2.5, 11.0)))

    def check(self, seen: dict[str, list[int]], *, once: bool) -> None:
        wanted = self.due.keys() - self.recalled
        assert wanted - seen.keys() == set(), "lost"
        assert seen.keys() - wanted == set(), "recalled, and delivered all the same"
        for body, times in seen.items():
            assert min(times) >= self.due[body], f"{body} is early"
            assert not once or len(times) == 1, f"{body} came {len(times)} times"


def look(life: Virtual, seen: dict[str, list[int]]) -> None:
    """Records expire here, so what is there is noted as we go."""
    for record in life.stored("T"):
        times = seen.setdefault(record.body.decode(), [])
        if record.store_timestamp not in times:
            times.append(record.store_timestamp)


@pytest.mark.parametrize("seed", range(12))
async def test_kills_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    checker, seen = Checker(seed), dict[str, list[int]]()
    clock = ManualClock(START_MS + seed * 137)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for _ in range(12):
        async with virtual_broker(tmp_path, disk, clock, killed=True, **SETTINGS) as life:
            await life.clock.settle()
            for _ in range(4):
                await checker.act(life)
                look(life, seen)
        disk = disk.kill()
    async with virtual_broker(tmp_path, disk, clock, **SETTINGS) as life:
        for _ in range(30):
            await life.advance(10)
            look(life, seen)
        assert life.broker.timing.timers is not None
        assert (life.broker.timing.timers.lost, life.broker.timing.timer_store.waiting) == (0, 0)
        assert life.broker.timing.timer_store.known_before == 0  # a kill is no damage: nothing was made anew
    checker.check(seen, once=True)


@pytest.mark.parametrize("seed", range(8))
async def test_power_cuts_lose_nothing_that_was_flushed(tmp_path: Path, seed: int) -> None:
    checker, seen = Checker(seed), dict[str, list[int]]()
    clock = ManualClock(START_MS + seed * 311)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for _ in range(10):
        async with virtual_broker(tmp_path, disk, clock, killed=True, **SETTINGS) as life:
            for _ in range(3):
                await checker.act(life)
                look(life, seen)
            await life.broker.store.flush_all()
        disk = disk.crash(seed)
    async with virtual_broker(tmp_path, disk, clock, **SETTINGS) as life:
        for _ in range(30):
            await life.advance(10)
            look(life, seen)
    checker.check(seen, once=False)
