"""How long `pyromq` takes to start: the milliseconds from the shell's point of view, beside a bare Python.

    python bench/cli_start.py [--runs 15]

Each line is the median of its runs. A command that talks to a cluster is timed up to its refusal by a port where nobody
listens, so that what is measured is our own: imports, parsing, one failed connection. Aim: 150 ms.
"""

from __future__ import annotations

import argparse
import json
import os
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


def milliseconds(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, capture_output=True, check=False)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for name, case in CASES.items():
        words = command(case)
        milliseconds(words)  # its files are in the page cache from here on
        times = [milliseconds(words) for _ in range(arguments.runs)]
        found = {"case": name, "medianMs": round(median(times), 1), "leastMs": round(min(times), 1)}
        print(
            json.dumps(found)
            if arguments.json
            else f"{found['medianMs']:8.1f} ms  (least {found['leastMs']:.1f})  {name}"
        )
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)


if __name__ == "__main__":
    main()
