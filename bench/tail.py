"""The tail of sends at half of what the broker takes, and what each outlier was: `python bench/tail.py [--minutes 5]`.

Half of what it takes for long: the most is measured over MOST_S, in which files expire and the disk writes what it is
given (a burst of a few seconds goes into memory and shows a rate that no disk holds). Open loop, so that a stall counts
for all that were due meanwhile. Files are small: they roll every few seconds, the oldest expire, queues, index and
tables are flushed as ever, and a backup is taken half-way (by `nice`). The broker runs with a witness
(`measure/watched.py`, `measure/observer.py`) that notes what its event loop did whenever it stood still, and how long
it waited for a CPU. `measure/pauses.c` runs beside it and notes when a CPU served nobody at all, as happens to virtual
machines: no program does better than that, and what is left of a stall without it is the broker's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.measure.stalls import Pause, Stall, by_cause, explain, pauses_watched, read_stalls  # noqa: E402
from bench.results import note  # noqa: E402
from bench.servers import Case, Server, built, measure, scratch, started  # noqa: E402

MOST = Case("most", "send -t Tail -c 4 -w 64 -s 128 -q 4")
SMALL_FILES = ("--commit-log-file-bytes", str(64 << 20), "--queue-file-bytes", str(20 * 100_000))
RETENTION = {"PYROMQ_BROKER_MAX_LOG_BYTES": str(1 << 30), "PYROMQ_BROKER_FIRST_ROUND_MS": "1000"}
LOAD_WINDOW = 512  # in flight on each connection at most: what a stall holds back has room
BACKUP_S = 20
WARM_S, MOST_S = 5, 40
STALL_MS = 5  # the aim


def watched_broker(folder: Path, stalls: Path, stack: ExitStack) -> Server:
    command = [sys.executable, "bench/measure/watched.py", "broker", "--listen", "127.0.0.1:0"]
    command += ["--broker-name", "broker-a", "--store-path-root-dir", str(folder), "--log-level", "error", *SMALL_FILES]
    os.environ.update(RETENTION | {"BENCH_STALLS": str(stalls)})
    return stack.enter_context(started("watched", command))


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
        pauses = stack.enter_context(pauses_watched(folder))
        late_us, seconds = round(chosen.late_ms * 1000), chosen.minutes * 60
        case = Case("tail", f"send -t Tail -c 4 -w {LOAD_WINDOW} -s 128 -q 4 -r {rate} -o {late_us}")
        backup = Backup(folder, seconds / 2)
        stack.callback(backup.stop)
        found = measure(load, case, server, seconds)
        pauses.stop()
        noted = read_stalls(stalls, pauses.seen())  # what comes while the backup ends is not of these sends
        if chosen.keep_stalls:
            shutil.copy(stalls, chosen.keep_stalls)
        report(found, noted, pauses.seen(), rate, chosen, backup.outcome())


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


def report(
    found: dict[str, Any], stalls: list[Stall], pauses: list[Pause], rate: int, chosen: Any, backup: str
) -> None:
    late = [(int(at), int(us)) for at, us in found.get("outliers", [])]
    print(
        f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}: {chosen.minutes:g} min at {rate}/s, "
        f"{found['messages']} acked, {found['errors']} refused, the backup {backup}\n"
        f"p50 {found['p50_us']} us, p99 {found['p99_us']} us, p99.9 {found['p999_us']} us, max {found['max_us']} us; "
        f"CPU {found['cpu_us']:.1f} us a message; {len(late)} answers of {chosen.late_ms:g} ms or more\n"
        f"pauses of the machine of {STALL_MS:g} ms or more: {over(STALL_MS, [one.length_ms for one in pauses])}\n"
        f"stalls whose own part is {STALL_MS:g} ms or more: {over(STALL_MS, [one.own_ms for one in stalls])}\n"
    )
    print("| late answers | what it was |\n|---|---|")
    causes = explain(late, stalls, pauses).most_common(20)
    for cause, count in causes:
        print(f"| {count} | {cause} |")
    note(chosen.json, "tail", "native", [{**found, **{f"late: {cause}": count for cause, count in causes}}])
    print("\n| stalls of 4 ms or more | in all | longest | longest own part | what it was |\n|---|---|---|---|---|")
    for cause, ones in by_cause(stalls)[:20]:
        lengths = [one.length_ms for one in ones]
        own = max(one.own_ms for one in ones)
        print(f"| {len(ones)} | {sum(lengths):.0f} ms | {max(lengths):.1f} ms | {own:.1f} ms | {cause} |")
    print("\nThe longest own parts:\n")
    for one in sorted(stalls, key=lambda one: -one.own_ms)[:15]:
        beside = f"; beside it: {one.beside}" if one.beside else ""
        print(
            f"- {one.own_ms:.1f} of {one.length_ms:.1f} ms (waited for a CPU {one.no_cpu_ms:.1f}, "
            f"the machine paused {one.pause_ms:.1f}; {one.appended >> 10} KB appended): {one.where}{beside}"
        )


def over(least_ms: float, lengths: list[float]) -> str:
    long = [length for length in lengths if length >= least_ms]
    return f"{len(long)}, the longest {max(long):.1f} ms" if long else "none"


if __name__ == "__main__":
    main()
