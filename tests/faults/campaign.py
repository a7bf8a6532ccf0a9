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
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.faults.hosts import what_is_missing
from tests.faults.kinds import FAULTS
from tests.faults.results import TOTALS, Line, append_line, markdown, read_lines
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
        pace_s=options.pace,
        settings=FLUSHED if is_flushed else {},
        say=lambda line: print(f"  {line}", file=sys.stderr, flush=True),
    )


def line_of(found: Finished) -> Line:
    """Return what is kept of a run."""
    plan, verdict = found.plan, found.verdict
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "seed": plan.seed,
        "date": time.strftime("%Y-%m-%d"),
        "commit": head.stdout.strip(),
        "seconds": round(found.seconds),
        "together": plan.together,
        "pace_s": plan.pace_s,
        "flushed": bool(plan.settings),
        **{name: getattr(verdict, name) for name in TOTALS},
        "broken": verdict.broken,
        "faults": found.rows(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--faults", default="all", help="names or parts of names, divided by commas")
    parser.add_argument("--each", action="store_true", help="each fault once in a run, in an order by chance")
    parser.add_argument("--together", type=int, default=1, help="so many faults at a time, at most")
    parser.add_argument("--pace", type=float, default=0.012, help="seconds between two sends of each of the eight keys")
    parser.add_argument("--results", type=Path, help="add each run to this file; seeds that it has are not run again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missing = what_is_missing()
    if missing is not None:
        sys.exit(missing)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # nothing is left running or mounted
    names, done = chosen(options.faults), list[Line]()
    known = {line["seed"] for line in read_lines(options.results)} if options.results else set()
    for seed in range(options.seed, options.seed + options.runs):
        if seed not in known:
            done.append(run_one(planned(seed, options, names)))
            if options.results:
                append_line(options.results, done[-1])
    print(json.dumps(done) if options.json else markdown(done))
    return 1 if any(line["broken"] for line in done) else 0


def run_one(plan: Plan) -> Line:
    """Carry out a run, and say what it found. The logs of a run with a broken promise are kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"faults-{plan.seed}-"))
    line = line_of(carry_out(plan, folder))
    sums = ", ".join(f"{line[name]} {name}" for name in TOTALS)
    plan.say(f"seed {plan.seed}: {line['seconds']} s, {sums}, {len(line['broken'])} promises broken")
    for broken in line["broken"]:
        plan.say(f"BROKEN {broken}; logs in {folder}")
    if not line["broken"]:
        shutil.rmtree(folder)
    return line


if __name__ == "__main__":
    sys.exit(main())
