"""Runs the simulation of a large cluster by hand: `python -m tests.scale --clients 100000`.

Prints a line for each scenario: what name servers and brokers did a second before it, in the worst second and at the
end. Exit code 1: one of them did not calm down.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.scale.cluster import Size
from tests.scale.scenarios import SCENARIOS, Load, Outcome, run


def shown(load: Load) -> str:
    return f"{load.requests:,.0f}/s, {load.bytes / 1e6:,.1f} MB/s, {load.longest_wait_s * 1000:,.0f} ms"


def show(outcome: Outcome, seconds: float) -> None:
    print(f"{outcome.scenario}: {'calm' if outcome.is_calm else 'NOT CALM'} ({seconds:.0f} s of this machine)")
    for kind in outcome.before:
        print(f"  {kind}: before {shown(outcome.before[kind])}; worst {shown(outcome.worst[kind])}; ", end="")
        print(f"at the end {shown(outcome.after[kind])}")
    print(f"  sends {outcome.sends:,}, failed {outcome.failed_sends:,}, of these in the last 30 s ", end="")
    print(f"{outcome.failed_at_the_end:,}; longest {outcome.longest_send_s:.1f} s")
    print(f"  brokers known at the end {outcome.brokers_known}; asked of name servers: {outcome.kinds}", flush=True)


def main() -> int:
    logging.disable()
    parser = argparse.ArgumentParser(prog="python -m tests.scale", description=__doc__)
    parser.add_argument("--brokers", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--only", choices=sorted(SCENARIOS), help="this scenario alone")
    chosen = parser.parse_args()
    size = Size(chosen.brokers, chosen.topics, chosen.clients)
    is_calm = True
    for scenario in [chosen.only] if chosen.only else SCENARIOS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(scenario, size, Path(folder), say=lambda text: print(f"  ... {text}", flush=True))
        show(outcome, time.monotonic() - began)
        is_calm = is_calm and outcome.is_calm
    print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0 if is_calm else 1


if __name__ == "__main__":
    sys.exit(main())
