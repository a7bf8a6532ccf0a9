"""A noisy neighbour: what a producer at ten times its quota changes for another one.

    python -m bench.quotas [--realtime] [--folder /dev/shm] [--rounds 15]        # some four minutes

Two brokers of ours. A steady producer, the victim, sends 200 messages a second to the first; the time of each counts
from when it was due. Meanwhile a neighbour tries 5,000 a second: nobody (*alone*), to the second broker, which refuses
nine of ten (*elsewhere*: the same work on the same cores, so what the machine makes of it), to the first one at its
quota of 500 (*within*) and at ten times that (*beyond*), and without a quota (*free*). Turns are short and in rows, and
the median of the p99s of a row's turns counts.

Both brokers share the first core and both generators (bench/mqload.c) the last one, so that what a generator takes is
not taken from the broker. `--realtime` puts them before all other programs of a busy machine (SCHED_FIFO, as root), the
victim's generator before the neighbour's: what it waits for is its broker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.servers import Server, built, our_broker, scratch  # noqa: E402

from pyromq.ambient import SystemClock, system_random  # noqa: E402
from pyromq.protocol.bodies.own import QuotaChange  # noqa: E402
from pyromq.protocol.command import Command  # noqa: E402
from pyromq.protocol.headers.admin import QuotaName  # noqa: E402
from pyromq.protocol.requests import RequestCode  # noqa: E402
from pyromq.transport.client import RemotingClient  # noqa: E402

QUOTA, TRIED, STEADY = 500, 5_000, 200  # messages a second
VICTIM = f"send -t steady -c 1 -w 64 -s 1024 -q 4 -r {STEADY}"
NEIGHBOUR = "send -t noisy -c 4 -w 500 -s 1024 -q 4"  # windows that hold what waits for its refusal
SETTLES_S = 0.5
BROKERS, NOISE, STEADIES = 20, 10, 30  # priorities


class Row(NamedTuple):
    words: str
    tried: int  # by the neighbour
    is_here: bool = True
    has_quota: bool = True


ROWS = {
    "alone": Row("alone", 0),
    "elsewhere": Row(f"while another broker is tried with {TRIED} a second, ten times the quota there", TRIED, False),
    "within": Row(f"beside a neighbour at its quota of {QUOTA} a second", QUOTA),
    "beyond": Row(f"beside a neighbour who tries {TRIED}, ten times its quota", TRIED),
    "free": Row(f"beside {TRIED} a second without a quota", TRIED, has_quota=False),
}


class Turn(NamedTuple):
    p50_us: float
    p99_us: float
    cpu: float  # of the victim's broker; 1: a core
    refused: int


@contextmanager
def placed(core: int, priority: int) -> Iterator[None]:
    """Have what is started meanwhile run on one core, and before all others if there is a priority."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    if priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    try:
        yield
    finally:
        if priority:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, cores)


def set_quota(server: Server, topic: str, most: int | None) -> None:
    """Have a topic take so many messages a second; None: as many as come."""
    row = RequestCode.SET_QUOTA
    if most is None:
        fields = QuotaName(kind="topic", name=topic).to_fields()
        command = Command(code=RequestCode.DELETE_QUOTA, fields=fields)
    else:
        change = QuotaChange(kind="topic", name=topic, limits={"sendMessages": most})
        command = Command(code=row.code, body=row.takes.write_body(change))

    async def ask() -> None:
        async with RemotingClient(clock=SystemClock(), rng=system_random()) as talks:
            await talks.call(server.address, command, 10)

    asyncio.run(ask())


class Bench:
    """`start` begins a program on the generators' core with a priority."""

    def __init__(self, load: Path, here: Server, elsewhere: Server, start: Callable[[list[Any], int], Any]) -> None:
        self._load, self._here, self._elsewhere, self._start = load, here, elsewhere, start

    def turn(self, row: Row, seconds: float) -> Turn:
        server = self._here if row.is_here else self._elsewhere
        set_quota(server, "noisy", QUOTA if row.has_quota else None)
        noise = None
        if row.tried:
            most_s = seconds + 2 * SETTLES_S
            words = f"{NEIGHBOUR} -r {row.tried} -d {most_s} -a {server.address}".split()
            noise = self._start([self._load, *words], NOISE)
        time.sleep(SETTLES_S)
        spent, begun = self._here.cpu_us(), time.perf_counter()
        victim = self._start([self._load, *f"{VICTIM} -d {seconds} -a {self._here.address}".split()], STEADIES)
        seen = json.loads(victim.communicate()[0])
        cpu = (self._here.cpu_us() - spent) / 1e6 / (time.perf_counter() - begun)
        refused = 0 if noise is None else int(json.loads(noise.communicate()[0])["codes"].get("2", 0))
        if seen["errors"]:
            raise SystemExit(f"the steady producer was refused: {seen}")
        return Turn(seen["p50_us"], seen["p99_us"], cpu, refused)


def show(found: dict[str, list[Turn]]) -> None:
    def middle(name: str, of: Callable[[Turn], float]) -> float:
        return statistics.median(of(one) for one in found[name])

    alone, elsewhere = (middle(name, lambda turn: turn.p99_us) for name in ("alone", "elsewhere"))
    print("| a producer of 200 a second | p50, ms | p99, ms | by alone | by elsewhere | its broker's CPU | refused |")
    print("|---|---|---|---|---|---|---|")
    for name, row in ROWS.items():
        p50, p99 = (middle(name, of) for of in (lambda turn: turn.p50_us, lambda turn: turn.p99_us))
        cpu, refused = middle(name, lambda turn: turn.cpu), sum(turn.refused for turn in found[name])
        by = f"{p99 / alone:.2f} | {p99 / elsewhere:.2f}"
        print(f"| {row.words} | {p50 / 1000:.2f} | {p99 / 1000:.2f} | {by} | {cpu:.1%} | {refused:,} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--folder", help="where stores lie meanwhile")
    parser.add_argument("--realtime", action="store_true", help="before all other programs of the machine; as root")
    chosen = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))

    def start(words: list[Any], priority: int) -> subprocess.Popen[str]:
        with placed(cores[-1], priority if chosen.realtime else 0):
            return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    found: dict[str, list[Turn]] = {name: [] for name in ROWS}
    loads = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        load = built(folder, "mqload")
        with placed(cores[0], BROKERS if chosen.realtime else 0):
            here, elsewhere = (stack.enter_context(our_broker(folder / name)) for name in ("here", "elsewhere"))
        bench = Bench(load, here, elsewhere, start)
        for row in ROWS.values():
            bench.turn(row, 1.0)  # topics are made, files are there
        for _ in range(chosen.rounds):
            loads.append(os.getloadavg()[0])
            for name, row in ROWS.items():
                found[name].append(bench.turn(row, chosen.seconds))
    show(found)
    how = "before all other programs" if chosen.realtime else "among the other programs of the machine"
    print(f"{len(cores)} cores, load {min(loads):.1f} to {max(loads):.1f}, {how}; {chosen.rounds} turns a row")


if __name__ == "__main__":
    main()
