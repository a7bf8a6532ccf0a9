"""Runs by hand, with progress and a table: `python -m tests.faults.campaign --runs 100 --minutes 5 --faults all`.

Each run has a seed, by which faults, their targets and their lengths are chosen. Exit code 1: a promise was broken; its
logs are kept. `--faults` takes names and parts of names (`kill,cut`), `--each` does each fault once in place of chance,
`--together 2` lets two faults overlap. Needs root, and what `make peers` installs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.faults.hosts import what_is_missing
from tests.faults.kinds import FAULTS
from tests.faults.run import FLUSHED, Finished, Plan, carry_out


def chosen(words: str) -> list[str]:
    """Return the faults that are meant. Raises SystemExit for a word that means none."""
    if words == "all":
        return list(FAULTS)
    found: list[str] = []
    for word in words.split(","):
        meant = [name for name in FAULTS if word in name]
        if not meant:
            sys.exit(f"--faults {word}: none of {', '.join(FAULTS)}")
        found += [name for name in meant if name not in found]
    return found


def planned(seed: int, options: argparse.Namespace, names: list[str]) -> Plan:
    """Return the run of this seed. Every second one has `haAckAfterFlush`, and with it power cuts of all machines."""
    is_flushed = any(FAULTS[name].needs_flush for name in names) and (options.each or seed % 2 == 0)
    usable = [name for name in names if is_flushed or not FAULTS[name].needs_flush]
    if options.each:
        Random(seed).shuffle(usable)
    return Plan(
        seed,
        usable,
        seconds=None if options.each else options.minutes * 60,
        together=options.together,
        settings=FLUSHED if is_flushed else {},
        say=lambda line: print(f"  {line}", file=sys.stderr, flush=True),
    )


def table(done: list[Finished]) -> list[dict[str, object]]:
    """Return a row for each fault: how often, and how long no send was acknowledged."""
    rows: list[dict[str, object]] = []
    for name in sorted({name for each in done for name in each.gaps}):
        found = sorted(gap for each in done for gap in each.gaps.get(name, ()))
        whole = sorted(gap for each in done for gap in each.whole_s.get(name, ())) or [0.0]
        row = {
            "fault": name,
            "times": len(found),
            "p50": round(statistics.median(found), 2),
            "worst": round(found[-1], 2),
        }
        rows.append({**row, "whole p50": round(statistics.median(whole), 2), "whole worst": round(whole[-1], 2)})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--faults", default="all", help="names or parts of names, divided by commas")
    parser.add_argument("--each", action="store_true", help="each fault once in a run, in an order by chance")
    parser.add_argument("--together", type=int, default=1, help="so many faults at a time, at most")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missing = what_is_missing()
    if missing is not None:
        sys.exit(missing)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # nothing is left running or mounted
    names, done = chosen(options.faults), list[Finished]()
    for seed in range(options.seed, options.seed + options.runs):
        folder = Path(tempfile.mkdtemp(prefix=f"faults-{seed}-"))
        found = carry_out(planned(seed, options, names), folder)
        done.append(found)
        verdict = found.verdict
        print(
            f"run {len(done)} of {options.runs}, seed {seed}: {found.seconds:.0f} s, {verdict.acked} acked, "
            f"{verdict.unknown} unknown, {verdict.duplicates} duplicates, {verdict.redelivered} redelivered, "
            f"{len(verdict.broken)} promises broken",
            file=sys.stderr,
            flush=True,
        )
        for line in verdict.broken:
            print(f"BROKEN {line}; logs in {folder}", file=sys.stderr, flush=True)
        if not verdict.broken:
            shutil.rmtree(folder)
    report(done, as_json=options.json)
    return 1 if any(found.verdict.broken for found in done) else 0


def report(done: list[Finished], *, as_json: bool) -> None:
    """Print what all runs found."""
    totals = {
        name: sum(getattr(each.verdict, name) for each in done)
        for name in ("acked", "unknown", "retried", "duplicates", "redelivered")
    }
    broken = [{"seed": each.seed, "broken": each.verdict.broken} for each in done if each.verdict.broken]
    if as_json:
        print(json.dumps({"runs": len(done), **totals, "broken": broken, "faults": table(done)}))
        return
    print("| fault | times | no ack p50 | worst | whole again p50 | worst |\n|---|---|---|---|---|---|")
    for row in table(done):
        print("| " + " | ".join(map(str, row.values())) + " |")
    print(f"{len(done)} runs: {', '.join(f'{count} {name}' for name, count in totals.items())}, {len(broken)} broken")


if __name__ == "__main__":
    sys.exit(main())
