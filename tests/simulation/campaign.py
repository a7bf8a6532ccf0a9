"""Runs many seeds by hand, with progress: `python -m tests.simulation.campaign --seeds 100000`.

`--from` begins at another seed, `--bug NAME` plants a bug and stops at the seed that finds it, `--jobs` takes more
processes. Exit code 1: a promise was broken (or a planted bug was not found).
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial

from tests.simulation.planted import BUGS
from tests.simulation.replica import Replica
from tests.simulation.world import SeedResult, run_seed

PROGRESS_S = 5.0


def results(seeds: Iterable[int], bug: str | None, jobs: int) -> Iterator[SeedResult]:
    kind = BUGS[bug] if bug else Replica
    with ExitStack() as stack:
        if jobs == 1:
            yield from map(partial(run_seed, kind=kind), seeds)
        else:
            pool = stack.enter_context(ProcessPoolExecutor(jobs))
            yield from pool.map(partial(run_seed, kind=kind), seeds, chunksize=20)


def main() -> int:
    logging.disable()  # what a thousand simulated replicas log
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug, and stop where it is found")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    began = last = time.monotonic()
    count = acks = elections = losses = 0
    for found in results(range(options.first, options.first + options.seeds), options.bug, options.jobs):
        count, acks, elections = count + 1, acks + found.acks, elections + found.elections
        losses += found.is_loss_allowed
        if found.violation is not None:
            print(f"seed {found.seed}: {found.violation}")
            return 0 if options.bug else 1
        if time.monotonic() - last > PROGRESS_S:
            last = time.monotonic()
            print(f"{count} of {options.seeds} seeds, {count / (last - began):.0f} a second", file=sys.stderr)
    print(
        f"{count} seeds in {time.monotonic() - began:.0f} s: {acks} acknowledged, {elections} elections, "
        f"{losses} ended by power cuts of all holders, 0 promises broken"
    )
    return 1 if options.bug else 0


if __name__ == "__main__":
    sys.exit(main())
