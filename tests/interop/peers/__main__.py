"""`python -m tests.interop.peers fetch`: bring every peer beforehand, so that tests and benchmarks need no network."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import cache, cpp, go, java, node

STEPS: dict[str, Callable[[], Path]] = {
    **{f"RocketMQ {version} (Maven)": partial(java.classes, version) for version in java.CLIENTS},
    "ali-ons 3.12.0 (npm)": node.modules,
    "C++ client in rocketmq 0.4.4 (PyPI)": cpp.packages,
    "rocketmq-client-go 2.1.2 (Go modules)": go.program,
}


def fetch() -> int:
    """Fetch all; the exit code says whether everything is there now."""
    print(f"peers go to {cache.root()} (PYROMQ_PEERS names another place)")
    missing = 0
    for number, (what, step) in enumerate(STEPS.items(), 1):
        print(f"[{number}/{len(STEPS)}] {what} ... ", end="", flush=True)
        began = time.monotonic()
        try:
            step()
        except cache.PeerMissing as reason:
            missing += 1
            print(f"missing: {reason}")
        else:
            print(f"there after {time.monotonic() - began:.1f} s")
    return 1 if missing else 0


if __name__ == "__main__":
    if sys.argv[1:] != ["fetch"]:
        sys.exit("usage: python -m tests.interop.peers fetch")
    sys.exit(fetch())
