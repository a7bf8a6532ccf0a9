"""How long `pyromq` takes to start: the milliseconds from the shell's point of view, beside a bare Python.

    python bench/cli_start.py [--runs 15]

Each line is the median of its runs, by the wall clock and by the CPU, which is the one to look at on a busy machine. A
command that talks to a cluster is timed up to its refusal by a port where nobody listens, so that what is measured is
our own: imports, parsing, one failed connection. Aim: 150 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from statistics import median

NOBODY = "127.0.0.1:1"
CASES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python, click imported": [sys.executable, "-c", "import click"],
    "pyromq --version": ["--version"],
    "pyromq --help": ["--help"],
    "pyromq topic --help": ["topic", "--help"],
    "pyromq topic list --help": ["topic", "list", "--help"],
    "pyromq topic list": ["topic", "list", "-n", NOBODY, "--timeout", "1"],
    "pyromq pub": ["pub", "T", "x", "-n", NOBODY, "--timeout", "1"],
    "pyromq broker config get": ["broker", "config", "get", "-n", NOBODY, "--timeout", "1"],
    "pyromq doctor": ["doctor", "-n", NOBODY, "--timeout", "1"],
    "pyromq completion bash": ["completion", "bash"],
}


def command(case: list[str]) -> list[str]:
    return case if case[0] == sys.executable else [sys.executable, "-m", "pyromq", *case]


def milliseconds(words: list[str]) -> tuple[float, float]:
    """Wall clock, CPU."""
    cpu, began = _cpu_s(), time.perf_counter()
    subprocess.run(words, capture_output=True, check=False)
    return (time.perf_counter() - began) * 1000, (_cpu_s() - cpu) * 1000


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for name, case in CASES.items():
        words = command(case)
        milliseconds(words)  # its files are in the page cache from here on
        runs = [milliseconds(words) for _ in range(arguments.runs)]
        wall, cpu = median(one[0] for one in runs), median(one[1] for one in runs)
        found = {"case": name, "medianMs": round(wall, 1), "cpuMs": round(cpu, 1)}
        print(json.dumps(found) if arguments.json else f"{wall:8.1f} ms  {cpu:7.1f} ms of CPU  {name}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)


if __name__ == "__main__":
    main()
