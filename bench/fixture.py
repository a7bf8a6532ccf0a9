"""How long the pytest fixture `rmq_broker` takes until its name server and broker are ready, and to end. Aim: 100 ms.

    python bench/fixture.py [--runs 20]

The first line has the imports, which a test run pays once; the others are the median and the least of the runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from statistics import median


async def once() -> tuple[float, float]:
    """Milliseconds to be ready, and to be gone."""
    from pyromq.testing.broker import RmqBroker

    began = time.perf_counter()
    async with RmqBroker():
        ready = time.perf_counter()
    return (ready - began) * 1000, (time.perf_counter() - ready) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    began = time.perf_counter()
    asyncio.run(once())
    print(f"{(time.perf_counter() - began) * 1000:8.1f} ms  the first one, with its imports, to its end")
    found = [asyncio.run(once()) for _ in range(runs)]
    for name, place in (("until it is ready", 0), ("until it is gone", 1)):
        took = [one[place] for one in found]
        print(f"{median(took):8.1f} ms  {name}, at least {min(took):.1f}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
