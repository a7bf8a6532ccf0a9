"""The checker of `test_stored_kills.py` with as many seeds as you like: kills, stored check points, virtual time.

python -m tests.broker.pop.stored.campaign --seeds 10000 --first 0 --lives 2 --cpu 900
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from pathlib import Path

from pyromq.kernel import state
from tests.broker.pop.stored.test_stored_kills import live_and_die


async def run(first: int, seeds: int, lives: int, cpu_s: float) -> int:
    """Return how many seeds failed; each is printed with what it found."""
    failed = done = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + seeds):
            if time.process_time() > cpu_s:
                break
            try:
                await live_and_die(Path(folder), seed, lives)
            except AssertionError as found:
                failed += 1
                print(f"seed {seed}: {found}", flush=True)
            done += 1
    print(f"{done} seeds from {first} on, {failed} failed, {state.PopTable.__module__}, {time.process_time():.0f} s")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--lives", type=int, default=2)
    parser.add_argument("--cpu", type=float, default=900.0, help="seconds of processor time")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    raise SystemExit(min(1, asyncio.run(run(asked.first, asked.seeds, asked.lives, asked.cpu))))


if __name__ == "__main__":
    main()
