"""What stood behind each stall and each late answer of `bench/tail.py`.

A stall is what observer.py saw; a pause is what pauses.c saw: a CPU that served nobody. What a stall has left without
the longer of its pauses and its wait for a CPU is its own: as if they always overlapped, so that it is rather too much.
"""

from __future__ import annotations

import json
import subprocess
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.measure.compiled import compiled

NEAR_MS = 30  # an answer that late may come so long after the loop goes on
MACHINE = "the machine: a CPU that served nobody"
NO_CPU = "the loop's thread waited for a CPU"


class Pause(NamedTuple):
    cpu: int
    end_ms: float
    length_ms: float


class Stall(NamedTuple):
    end_ms: float
    length_ms: float
    no_cpu_ms: float  # waited for one
    pause_ms: float  # of the CPU that stood still longest meanwhile
    appended: int  # bytes of the log
    where: str
    beside: str

    @property
    def own_ms(self) -> float:
        return max(0.0, self.length_ms - max(self.no_cpu_ms, self.pause_ms))

    @property
    def cause(self) -> str:
        if self.own_ms > self.length_ms / 2:
            return "in " + self.where
        return MACHINE if self.pause_ms >= self.no_cpu_ms else NO_CPU


class PauseWatch:
    """The probe, while it runs."""

    def __init__(self, program: Path, notes: Path, least_ms: float) -> None:
        self._notes = notes
        with notes.open("w") as out:
            self._process = subprocess.Popen([program, str(least_ms)], stdout=out)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def seen(self) -> list[Pause]:
        lines = [line.split() for line in self._notes.read_text().splitlines()]
        return [Pause(int(cpu), float(end), float(length)) for cpu, end, length in lines]


@contextmanager
def pauses_watched(folder: Path, least_ms: float = 1) -> Iterator[PauseWatch]:
    program = compiled(Path(__file__).with_name("pauses.c"), folder, "-pthread")
    watch = PauseWatch(program, folder / "pauses.seen", least_ms)
    try:
        yield watch
    finally:
        watch.stop()


def read_stalls(noted: Path, pauses: Sequence[Pause]) -> list[Stall]:
    return [_stall(json.loads(line), pauses) for line in noted.read_text().splitlines()]


def _stall(noted: dict[str, object], pauses: Sequence[Pause]) -> Stall:
    end, length = float(str(noted["ms"])), float(str(noted["stall_ms"]))
    stack, others, beside = (list(map(str, noted[key])) for key in ("stack", "others", "beside"))  # type: ignore[call-overload]
    running = [*beside, *(place for place in others if place != "running")]
    return Stall(
        end,
        length,
        float(str(noted["no_cpu_ms"])),
        paused_ms(pauses, end - length, end),
        int(str(noted["appended"])),
        " < ".join(reversed(stack[-4:])),
        ", ".join(running),
    )


def paused_ms(pauses: Sequence[Pause], start: float, end: float) -> float:
    """How long the CPU that lost most served nobody between two times."""
    spent: dict[int, float] = {}
    for cpu, until, length in pauses:
        common = min(until, end) - max(until - length, start)
        if common > 0:
            spent[cpu] = spent.get(cpu, 0.0) + common
    return max(spent.values(), default=0.0)


def explain(late: Sequence[tuple[int, int]], stalls: Sequence[Stall], pauses: Sequence[Pause]) -> Counter[str]:
    """How many late answers each cause explains. One belongs to the longest stall that ended just before it; without
    any, a pause may have kept whoever put the load on."""
    causes: Counter[str] = Counter()
    stalls, pauses = sorted(stalls), sorted(pauses, key=lambda one: one.end_ms)
    ends, pause_ends = [one.end_ms for one in stalls], [one.end_ms for one in pauses]
    for at_ms, us in late:
        due, until = at_ms - us / 1000, at_ms + NEAR_MS
        near = stalls[bisect_left(ends, due - NEAR_MS) : bisect_right(ends, until)]
        beside = pauses[bisect_left(pause_ends, due) : bisect_right(pause_ends, until)]
        if near:
            causes[max(near, key=lambda one: one.length_ms).cause] += 1
        else:
            causes[MACHINE if paused_ms(beside, due, at_ms) >= us / 2000 else "no stall of the broker's loop"] += 1
    return causes


def by_cause(stalls: Sequence[Stall]) -> list[tuple[str, list[Stall]]]:
    """First what took most."""
    groups: dict[str, list[Stall]] = {}
    for one in stalls:
        groups.setdefault(one.cause, []).append(one)
    return sorted(groups.items(), key=lambda item: -sum(one.length_ms for one in item[1]))
