"""How `pyromq up --brokers N` scales: `python bench/cluster.py [--most 2] [--seconds 4]`.

For 1, 2 ... brokers one load generator on each, all at once; the sum of their rates, and the brokers' CPU a message.
The generators need cores, too: with as many brokers as cores the sum says little, CPU a message says it all.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.servers import TICKS, built  # noqa: E402

LOAD = ["send", "-t", "Bench", "-c", "4", "-w", "16", "-s", "128", "-q", "4"]


@contextmanager
def cluster(folder: Path, brokers: int) -> Iterator[tuple[list[str], list[int]]]:
    """Addresses of the brokers, and their process ids."""
    command = [sys.executable, "-m", "pyromq", "up", "--brokers", str(brokers), "--data", str(folder)]
    command += ["--namesrv-port", "0", "--broker-port", "0", "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        welcome = process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        try:
            yield re.findall(r"[\d.]+:\d+", welcome)[1:], [int(pid) for pid in children]
        finally:
            process.terminate()


def cpu_s(pids: list[int]) -> float:
    words = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in words) / TICKS


def loads(load: Path, addresses: list[str], seconds: float) -> list[dict[str, float]]:
    started = [
        subprocess.Popen([load, *LOAD, "-a", one, "-d", str(seconds)], stdout=subprocess.PIPE) for one in addresses
    ]
    return [json.loads(one.communicate()[0]) for one in started]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--most", type=int, default=min(4, os.cpu_count() or 1), help="brokers")
    options.add_argument("--seconds", type=float, default=4)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as work:
        load = built(Path(work), "mqload")
        print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
        print("| brokers | msg/s in all | each | p99 us | CPU us a message |\n|---|---|---|---|---|")
        for brokers in range(1, chosen.most + 1):
            with cluster(Path(work) / str(brokers), brokers) as (addresses, pids):
                loads(load, addresses, 2)
                before = cpu_s(pids)
                found = loads(load, addresses, chosen.seconds)
                spent = (cpu_s(pids) - before) * 1e6 / max(1, sum(one["messages"] for one in found))
                each = ", ".join(f"{one['rate']:.0f}" for one in found)
                worst = max(one["p99_us"] for one in found)
                print(f"| {brokers} | {sum(one['rate'] for one in found):.0f} | {each} | {worst:.0f} | {spent:.1f} |")


if __name__ == "__main__":
    main()
