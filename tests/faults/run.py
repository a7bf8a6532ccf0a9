"""One run: a room, its load, one fault after the other, and the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults.checker import Event, Verdict, acked_within, judge, note_cases, note_gaps, note_times, read_events
from tests.faults.kinds import FAULTS
from tests.faults.replicas import compare_replicas
from tests.faults.results import FaultRow
from tests.faults.room import LIMIT_S, NotInTime, Room, running_room
from tests.interop.peers.process import Program, ProgramFailed
from tests.support import ROOT

CALM_S = 1.0  # between two faults, at least
# Settings by which not even a power cut of all machines loses anything; syncs are frequent, since sends wait for them.
FLUSHED = {"haAckAfterFlush": "true", "flushIntervalCommitLog": "20", "flushCommitLogLeastPages": "0"}


class StallWatch:
    """Notes when this machine stood still, as when others measure on it: such times say nothing of the set.

    A context manager."""

    TICK_S, STALL_S = 0.1, 2.0

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._is_over.wait(self.TICK_S):
            now = time.monotonic()
            if now - last > self.STALL_S:
                self._spans.append((last, now))
            last = now

    def is_in(self, began: float, ended: float) -> bool:
        """Return whether the machine stood still at any time of this span, or just before it."""
        return any(first < ended and last > began - CALM_S for first, last in self._spans)

    def __enter__(self) -> StallWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@dataclass
class Plan:
    """What a run does. Either `names` one after the other, once each, or for so many `seconds` by chance."""

    seed: int
    names: Sequence[str]
    seconds: float | None = None
    together: int = 1  # so many faults at a time, at most
    length_s: float | None = None  # of each fault; None: by chance, as the kind says
    pace_s: float = 0.012  # between the answer to a send and the next one of its key
    settings: dict[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda line: None


@dataclass
class Finished:
    """What a run found."""

    plan: Plan
    verdict: Verdict
    seconds: float = 0.0
    events: list[Event] = field(default_factory=list)  # a fault each, with the set's epochs before and after it

    def rows(self) -> list[FaultRow]:
        """Return what is kept of the faults."""
        return [_row(event) for event in self.events]


def _row(event: Event) -> FaultRow:
    is_undisturbed = not event["disturbed"]
    before, after = event["epochs"]
    return FaultRow(
        event["fault"],
        round(event["mended"] - event["began"], 1),
        round(event["gap"], 2) if is_undisturbed else None,
        round(event["ended"] - event["mended"], 2) if is_undisturbed else None,
        after - before,
        event["acked"],
        event["lost"],
        event["out of order"],
        event["duplicates"],
        event["redelivered"],
    )


def carry_out(plan: Plan, folder: Path | None = None) -> Finished:
    """Carry out a run. Nothing of it is left, unless it is given a folder for its logs."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pyromq-faults-") as own, ExitStack() as stack:
        here = folder or Path(own)
        room = stack.enter_context(running_room(Path(own), plan.settings))
        logs = here / "logs"
        logs.mkdir(parents=True)
        command = room.client.within(
            [sys.executable, "-m", "tests.faults.load", room.name_server, logs, str(plan.pace_s)]
        )
        load = stack.enter_context(Program(command, name="load", cwd=ROOT))
        stalls = stack.enter_context(StallWatch())
        load.wait_for("^sending$")
        try:
            _break_things(room, plan, logs, stalls)
            verdict = _end(room, load, logs)
        except (NotInTime, ProgramFailed, subprocess.TimeoutExpired) as fault:
            verdict = Verdict(broken=[f"the set did not come back: {fault}"])
        for node in room.nodes.values():
            (logs / f"broker-{node.name}.log").write_text("\n".join(node.written()))
        (logs / "load.log").write_text("\n".join(load.lines))
        sends, faults = read_events(logs / "sends.jsonl"), read_events(logs / "faults.jsonl")
    for event in faults:
        event["acked"] = acked_within(sends, event["began"] + CALM_S, event["mended"])
    note_gaps(sends, faults)
    note_cases(sends, faults, "lost", verdict.lost)
    note_cases(sends, faults, "out of order", verdict.out_of_order)
    note_cases(sends, faults, "duplicates", verdict.doubled)
    note_times(faults, "redelivered", verdict.redelivered_at)
    return Finished(plan, verdict, time.monotonic() - began, faults)


def _break_things(room: Room, plan: Plan, logs: Path, stalls: StallWatch) -> None:
    rng = Random(plan.seed)
    ends_at = None if plan.seconds is None else time.monotonic() + plan.seconds
    left = list(plan.names)
    while left if ends_at is None else time.monotonic() < ends_at:
        names = [left.pop(0)] if ends_at is None else _drawn(plan, rng)
        time.sleep(CALM_S)
        name, epoch = "+".join(names), room.epoch()
        began = time.monotonic()
        with ExitStack() as broken:
            for each in names:
                broken.enter_context(FAULTS[each].break_it(room, rng))
            by_chance_s = max(rng.uniform(FAULTS[each].least_s, FAULTS[each].most_s) for each in names)
            time.sleep(by_chance_s if plan.length_s is None else plan.length_s)
        mended = time.monotonic()
        room.wait_whole()
        ended = time.monotonic()
        is_disturbed = stalls.is_in(began, ended)
        event: Event = {"fault": name, "began": began, "mended": mended, "ended": ended}
        event |= {"epochs": [epoch, room.epoch()], "disturbed": is_disturbed}
        with (logs / "faults.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
        note = " (this machine stood still)" if is_disturbed else ""
        plan.say(f"{name}: {mended - began:.1f} s, whole {ended - mended:.1f} s later{note}")


def _drawn(plan: Plan, rng: Random) -> list[str]:
    """Return the faults of one time, by chance; one power cut of them, since two may take all copies that there are."""
    names = rng.sample(plan.names, min(len(plan.names), rng.randint(1, plan.together)))
    for second in [name for name in names if name.startswith("power")][1:]:
        names.remove(second)
    return sorted(names, key=list(FAULTS).index)


def _end(room: Room, load: Program, logs: Path) -> Verdict:
    """Stop the clients, and judge what they wrote and what the replicas have."""
    load.write_line("stop")
    load.wait_for("^done$", timeout_s=5 * LIMIT_S)
    load.wait()
    sends, got, stored = (read_events(logs / f"{name}.jsonl") for name in ("sends", "got", "stored"))
    verdict = judge(sends, got, stored)
    room.wait_whole()
    positions = [event["position"] for event in sends if event["event"] == "ack"]
    for node in room.nodes.values():
        node.stop()
    verdict.broken += compare_replicas(
        {name: node.store for name, node in room.nodes.items()}, max(positions, default=0)
    )
    return verdict
