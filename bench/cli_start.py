"""How long `pyromq` and `mqadmin` take to start: milliseconds from the shell's point of view, beside a bare Python.

    python bench/cli_start.py [--runs 15]

Each line has the median of its runs by the wall clock and by the CPU, and the least CPU of one run, which is the one to
look at on a busy machine. A command that talks to a cluster is timed up to its refusal by a port where nobody listens:
what is measured is our own, imports, parsing and one failed connection. Aim: 150 ms.

Bytecode is kept in a folder of this run, as an installed package has it, whatever PYTHONDONTWRITEBYTECODE says here:
compiling all files again would be most of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

NOBODY = "127.0.0.1:1"
CASES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python, click imported": [sys.executable, "-c", "import click"],
    "python, click, asyncio, msgspec imported": [sys.executable, "-c", "import click, asyncio, msgspec"],
    "pyromq --version": ["--version"],
    "pyromq --help": ["--help"],
    "pyromq topic --help": ["topic", "--help"],
    "pyromq topic list --help": ["topic", "list", "--help"],
    "pyromq topic list": ["topic", "list", "-n", NOBODY, "--timeout", "1"],
    "pyromq pub": ["pub", "T", "x", "-n", NOBODY, "--timeout", "1"],
    "pyromq broker config get": ["broker", "config", "get", "-n", NOBODY, "--timeout", "1"],
    "pyromq doctor": ["doctor", "-n", NOBODY, "--timeout", "1"],
    "pyromq completion bash": ["completion", "bash"],
    "mqadmin topicList": ["mqadmin", "topicList", "-n", NOBODY],
}


def command(case: list[str]) -> list[str]:
    """As the installed scripts call them."""
    if case[0] == sys.executable:
        return case
    room, words = ("mqadmin", case[1:]) if case[0] == "mqadmin" else ("cli", case)
    return [sys.executable, "-c", f"from pyromq.{room}.main import main; main()", *words]


def milliseconds(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall clock, CPU."""
    cpu, began = _cpu_s(), time.perf_counter()
    subprocess.run(words, capture_output=True, check=False, env=environment)
    return (time.perf_counter() - began) * 1000, (_cpu_s() - cpu) * 1000


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name, case in CASES.items():
            show(name, command(case), environment, arguments.runs, arguments.json)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)


def show(name: str, words: list[str], environment: dict[str, str], runs: int, as_json: bool) -> None:
    milliseconds(words, environment)  # its files are compiled, and in the page cache, from here on
    found = [milliseconds(words, environment) for _ in range(runs)]
    wall, cpu, least = median(one[0] for one in found), median(one[1] for one in found), min(one[1] for one in found)
    if as_json:
        row = {"case": name, "medianMs": round(wall, 1), "cpuMs": round(cpu, 1), "leastCpuMs": round(least, 1)}
        print(json.dumps(row))
    else:
        print(f"{wall:8.1f} ms  {cpu:7.1f} ms of CPU, at least {least:6.1f}  {name}")


if __name__ == "__main__":
    main()
