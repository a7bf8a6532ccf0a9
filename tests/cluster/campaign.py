"""Runs storms over whole clusters, with progress: `python -m tests.cluster.campaign --seeds 1000`.

`--from` begins at another seed, `--traces` prints what each seed did, as a hash. Exit code 1: a promise was broken.
The order in which Python walks through sets of texts is part of a run: it is the same one for all (PYTHONHASHSEED=0).
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.cluster.storm import run_storm

PROGRESS_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one")
    parser.add_argument("--traces", action="store_true", help="print the hash of each seed's trace")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.cluster.campaign", *sys.argv[1:]])
    began = last = time.monotonic()
    count = acks = elections = broken = 0
    for seed in range(options.first, options.first + options.seeds):
        found = run_storm(seed)
        count, acks, elections = count + 1, acks + found.acks, elections + found.elections
        if options.traces:
            print(found.trace)
        if found.violation is not None:
            broken += 1
            print(f"seed {seed}: {found.violation}", flush=True)
        if time.monotonic() - last > PROGRESS_S:
            last = time.monotonic()
            print(f"{count} of {options.seeds} seeds, {count / (last - began):.1f} a second", file=sys.stderr)
    print(f"{count} seeds: {acks} acknowledged, {elections} elections, {broken} with a broken promise")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
