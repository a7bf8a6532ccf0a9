"""The whole crash campaign: simulated stories, kills and power cuts. By hand; CI runs a share of each.

python -m tests.crash.campaign --seeds 100000 --kills 200 --power 1000
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.crash.lives import tell
from tests.crash.real import why_no_power_cuts

AT_ONCE = 250


def tell_many(first: int, count: int) -> list[str]:
    """Stories that went wrong, as text."""
    logging.disable(logging.CRITICAL)
    wrong = []
    for seed in range(first, first + count):
        try:
            tell(seed)
        except Exception as fault:
            wrong.append(f"seed {seed}: {type(fault).__name__}: {fault}")
    return wrong


def simulated(first: int, seeds: int) -> bool:
    began = time.monotonic()
    wrong: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(tell_many, at, min(AT_ONCE, first + seeds - at)) for at in range(first, first + seeds, AT_ONCE)
        ]
        for job in as_completed(jobs):
            for line in job.result():
                wrong.append(line)
                print(line, flush=True)
    print(f"simulated: {seeds} seeds, {len(wrong)} wrong, {time.monotonic() - began:.0f} s", flush=True)
    return not wrong


def real(*arguments: str) -> bool:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "tests.crash.real", *arguments], capture_output=True, text=True)
    outcome = done.stdout.strip() if done.returncode == 0 else done.stderr.strip()
    print(f"{' '.join(arguments)}: {outcome}, {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--power", type=int, default=1000, help="cycles on ext4; a third of it on xfs")
    wanted = parser.parse_args()
    good = [simulated(wanted.first_seed, wanted.seeds)] if wanted.seeds else []
    if wanted.kills:
        good.append(real("kill", "--cycles", str(wanted.kills)))
    for kind, cycles in (("ext4", wanted.power), ("xfs", wanted.power // 3)):
        if cycles and (reason := why_no_power_cuts(kind)):
            print(json.dumps({"skipped": reason}))
        elif cycles:
            good.append(real("power", "--fs", kind, "--cycles", str(cycles)))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
