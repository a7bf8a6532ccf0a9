"""Where the broker's time goes under a load, by `perf`: `python bench/hotspots.py [--row send-64] ...`.

Our broker on the native kernel, a row of bench/broker.py on it, its CPU samples by what they were in: Linux (system
calls), the Python interpreter, our native kernel, the event loop, the rest; and the functions that lead.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.broker import ROWS, WARM_UP_S, warm_up  # noqa: E402
from bench.results import heading, note  # noqa: E402
from bench.servers import Server, built, our_broker, scratch  # noqa: E402

FIELD = re.compile(r"^\s*([\d.]+)%\s+(\S+)\s+\[.\]\s+(.+?)\s*$")
LEADING = 8
KINDS = {"kernel.kallsyms": "Linux", "kernel.cpython": "our kernel", "loop.cpython": "event loop", "libc": "C library"}
KINDS |= {"_ssl": "TLS", "libcrypto": "TLS", "libssl": "TLS", "python": "Python"}  # the first that fits
OURS = re.compile(r"^__pyx_\w*?native_6kernel_(\d+)?")


def kind_of(place: str) -> str:
    return next((kind for part, kind in KINDS.items() if part in place), "other")


def record(load: Path, row: str, server: Server, seconds: float, file: Path) -> None:
    """Samples of the broker while the load runs."""
    command: list[str | Path] = [load, *ROWS[row].case.options.split(), "-a", server.address, "-d", str(seconds + 1)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as sending:
        try:
            perf = ["perf", "record", "-q", "-F", "999", "-p", str(server.pid), "-o", str(file)]
            subprocess.run([*perf, "--", "sleep", str(seconds)], check=True, capture_output=True)
        finally:
            sending.kill()


def shares(file: Path) -> tuple[Counter[str], list[tuple[float, str, str]]]:
    """By kind, and the leading functions."""
    command = ["perf", "report", "-i", str(file), "--stdio", "--sort", "dso,symbol", "-q"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kinds: Counter[str] = Counter()
    functions: list[tuple[float, str, str]] = []
    for line in printed.splitlines():
        if found := FIELD.match(line):
            share, kind = float(found[1]), kind_of(found[2])
            kinds[kind] += share  # type: ignore[assignment]  # percents, not counts
            functions.append((share, kind, OURS.sub("", found[3].split()[0])))
    return kinds, functions[:LEADING]


def profile(load: Path, row: str, folder: Path, chosen: argparse.Namespace) -> None:
    flags = ("--flush-mode", "SYNC_FLUSH") if ROWS[row].sync else ()
    with our_broker(folder / row, "native", *flags) as server:
        warm_up(load, server, max(ROWS[row].fill, WARM_UP_S if "drain" in row else 0))
        record(load, row, server, chosen.seconds, folder / f"{row}.perf")
    kinds, functions = shares(folder / f"{row}.perf")
    names = ", ".join(f"{name} ({kind}) {share:.1f}" for share, kind, name in functions)
    parts = ", ".join(f"{kind} {share:.0f}" for kind, share in kinds.most_common())
    print(f"| `{row}` | {parts} | {names} |", flush=True)
    note(chosen.json, f"profile {row}", "native", [dict(kinds)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--row", action="append", choices=list(ROWS), help="these alone")
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--folder", help="where stores go")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    if shutil.which("perf") is None:
        print("not run: `perf` is not installed (linux-perf)")
        return
    with scratch(chosen.folder) as folder:
        load = built(folder, "mqload")
        heading("where the broker's time goes, percent of its CPU", "python bench/hotspots.py")
        print("| row | in | leading functions |\n|---|---|---|")
        for row in chosen.row or ROWS:
            profile(load, row, folder, chosen)


if __name__ == "__main__":
    main()
