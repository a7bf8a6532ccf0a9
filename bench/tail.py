"""The tail of sends at half of what the broker takes, and what each outlier was: `python bench/tail.py [--minutes 5]`.

Half of what it takes for long: the most is measured over MOST_S, in which files expire and the disk writes what it is
given (a burst of a few seconds goes into memory and shows a rate that no disk holds). Open loop, so that a stall counts
for all that were due meanwhile. Files are small: they roll every few seconds, the oldest expire, queues, index and
tables are flushed as ever, and a backup is taken half-way (by a process that is nice: checking the copy takes a core
for a while, and the broker may not have one of its own). The broker runs with a witness (`measure/watched.py`,
`measure/observer.py`) that notes what its event loop did whenever it stood still, and how long it had no CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.results import note  # noqa: E402
from bench.servers import Case, Server, built, measure, scratch, started  # noqa: E402

MOST = Case("most", "send -t Tail -c 4 -w 64 -s 128 -q 4")
SMALL_FILES = ("--commit-log-file-bytes", str(64 << 20), "--queue-file-bytes", str(20 * 100_000))
RETENTION = {"PYROMQ_BROKER_MAX_LOG_BYTES": str(1 << 30), "PYROMQ_BROKER_FIRST_ROUND_MS": "1000"}
LOAD_WINDOW = 512  # in flight on each connection at most: what a stall holds back has room
BACKUP_S = 20
WARM_S, MOST_S = 5, 40
NEAR_MS = 30  # an answer that late may come so long after the loop goes on


def watched_broker(folder: Path, stalls: Path, stack: ExitStack) -> Server:
    command = [sys.executable, "bench/measure/watched.py", "broker", "--listen", "127.0.0.1:0"]
    command += ["--broker-name", "broker-a", "--store-path-root-dir", str(folder), "--log-level", "error", *SMALL_FILES]
    os.environ.update(RETENTION | {"BENCH_STALLS": str(stalls)})
    return stack.enter_context(started("watched", command))


def explain(outliers: list[tuple[int, int]], stalls: list[dict[str, Any]]) -> Counter[str]:
    """How many late answers each cause explains. An outlier belongs to the stall that ended just before it."""
    causes: Counter[str] = Counter()
    stalls = sorted(stalls, key=lambda one: int(one["ms"]))
    ends = [int(one["ms"]) for one in stalls]
    for at_ms, us in outliers:
        first, behind = bisect_left(ends, at_ms - us / 1000 - NEAR_MS), bisect_right(ends, at_ms + NEAR_MS)
        near = stalls[first:behind]
        longest = max(near, key=lambda one: float(one["stall_ms"]), default=None)
        causes["no stall of the broker's loop" if longest is None else _cause(longest)] += 1
    return causes


def by_cause(stalls: list[dict[str, Any]]) -> list[tuple[str, list[float]]]:
    """How long the stalls of each cause were; first what took most."""
    lengths: dict[str, list[float]] = {}
    for one in stalls:
        lengths.setdefault(_cause(one), []).append(float(one["stall_ms"]))
    return sorted(lengths.items(), key=lambda item: -sum(item[1]))


def _cause(stall: dict[str, Any]) -> str:
    if stall["no_cpu_ms"] > stall["stall_ms"] / 2:
        return "the loop's thread waited for a CPU"
    return "in " + " < ".join(reversed(stall["stack"][-3:]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--rate", type=int, default=0, help="sends a second; 0 measures the most and takes half")
    options.add_argument("--most-s", type=float, default=MOST_S, help="how long the most is measured")
    options.add_argument("--keep-stalls", help="copy what the witness noted to this file")
    options.add_argument("--late-ms", type=float, default=5, help="an answer is an outlier from here on")
    options.add_argument("--folder", help="where the store goes")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        load, stalls = built(folder, "mqload"), folder / "stalls"
        server = watched_broker(folder / "store", stalls, stack)
        measure(load, MOST, server, WARM_S)  # topic, files and caches are there then
        rate = chosen.rate or round(float(measure(load, MOST, server, chosen.most_s)["rate"]) / 2)
        stalls.write_text("")
        late_us, seconds = round(chosen.late_ms * 1000), chosen.minutes * 60
        case = Case("tail", f"send -t Tail -c 4 -w {LOAD_WINDOW} -s 128 -q 4 -r {rate} -o {late_us}")
        backup = Backup(folder, seconds / 2)
        stack.callback(backup.stop)
        found = measure(load, case, server, seconds)
        taken = backup.outcome()
        if chosen.keep_stalls:
            shutil.copy(stalls, chosen.keep_stalls)
        report(found, [json.loads(line) for line in stalls.read_text().splitlines()], rate, chosen, taken)


class Backup:
    """Begins after a while; `stop` ends it at whatever point it is."""

    def __init__(self, folder: Path, after_s: float) -> None:
        self._command = ["nice", sys.executable, "-m", "pyromq", "store", "backup"]
        self._command += [str(folder / "store"), str(folder / "backup")]
        self._process: subprocess.Popen[bytes] | None = None
        self._timer = threading.Timer(after_s, self._begin)
        self._timer.start()

    def _begin(self) -> None:
        quiet = subprocess.DEVNULL  # it warns that queues are written anew
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=quiet, stderr=quiet)

    def outcome(self) -> str:
        """Not waited for for long: what it does after the sends changes no figure."""
        self._timer.join()
        assert self._process is not None
        try:
            return f"ended with exit code {self._process.wait(BACKUP_S)}"
        except subprocess.TimeoutExpired:
            return "was still going on"

    def stop(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def report(found: dict[str, Any], stalls: list[dict[str, Any]], rate: int, chosen: Any, backup: str) -> None:
    outliers = [(int(at), int(us)) for at, us in found.get("outliers", [])]
    print(
        f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}: {chosen.minutes:g} min at {rate}/s, "
        f"{found['messages']} acked, {found['errors']} refused, the backup {backup}\n"
        f"p50 {found['p50_us']} us, p99 {found['p99_us']} us, p99.9 {found['p999_us']} us, max {found['max_us']} us; "
        f"CPU {found['cpu_us']:.1f} us a message; {len(outliers)} answers of {chosen.late_ms:g} ms or more\n"
    )
    print("| late answers | what it was |\n|---|---|")
    causes = explain(outliers, stalls).most_common(20)
    for cause, count in causes:
        print(f"| {count} | {cause} |")
    note(chosen.json, "tail", "native", [{**found, **{f"late: {cause}": count for cause, count in causes}}])
    own = [one for one in stalls if one["no_cpu_ms"] <= one["stall_ms"] / 2]
    print("\n| stalls | in all | longest | what it was |\n|---|---|---|---|")
    for cause, lengths in by_cause(stalls)[:20]:
        print(f"| {len(lengths)} | {sum(lengths):.0f} ms | {max(lengths):.1f} ms | {cause} |")
    print(f"\n{len(stalls)} stalls of 4 ms or more, {len(own)} of them not for want of a CPU; the longest of those:\n")
    for one in sorted(own, key=lambda one: -float(one["stall_ms"]))[:15]:
        others = [*one["beside"], *(place for place in one["others"] if place != "running")]
        beside = f"; beside it: {', '.join(others)}" if others else ""
        where = " < ".join(reversed(one["stack"][-4:]))
        print(f"- {one['stall_ms']} ms ({one['no_cpu_ms']} without CPU): {where}{beside}")


if __name__ == "__main__":
    main()
