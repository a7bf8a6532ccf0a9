"""What runs found, a line of JSON for each in a file that later campaigns go on with, and the table of all of them.

    python -m tests.faults.results [FILE]     # the table of docs/durability.md

A line has what the run was (its seed, and by what it may be run again), what was sent, which promises were broken, and
a row for each fault.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("results.jsonl")
TOTALS = ("acked", "unknown", "retried", "duplicates", "redelivered")

Line = Mapping[str, Any]


class FaultRow(NamedTuple):
    """One fault of a run, or several that were there at a time, with `+` between their names.

    `gap_s` is the longest time without an acknowledged send of any producer, `whole_s` the time from the end of the
    fault until all replicas were in sync; None where the machine itself stood still, which says nothing of the set.
    What was lost, out of order or twice is of the fault in or after which its send was answered."""

    fault: str
    length_s: float
    gap_s: float | None
    whole_s: float | None
    elections: int
    acked: int
    lost: int
    out_of_order: int
    duplicates: int
    redelivered: int = 0


def read_lines(path: Path) -> list[Line]:
    """Return what the runs of this file found."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def append_line(path: Path, line: Line) -> None:
    """Add a run, by one write: campaigns that run side by side may share the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def fault_rows(lines: Iterable[Line]) -> list[FaultRow]:
    """Return the faults of all these runs."""
    return [FaultRow(*row) for line in lines for row in line["faults"]]


def table(rows: Iterable[FaultRow]) -> list[dict[str, object]]:
    """Return a row for each kind of fault. Times are of those that were there alone, losses of all of them."""
    alone, all_of = defaultdict[str, list[FaultRow]](list), defaultdict[str, list[FaultRow]](list)
    for row in rows:
        names = row.fault.split("+")
        if len(names) == 1:
            alone[row.fault].append(row)
        for name in names:
            all_of[name].append(row)
    return [_kind(name, alone[name], all_of[name]) for name in sorted(all_of)]


def _kind(name: str, alone: list[FaultRow], all_of_it: list[FaultRow]) -> dict[str, object]:
    gap_p50, gap_worst = _middle_and_worst([row.gap_s for row in alone if row.gap_s is not None])
    whole_p50, whole_worst = _middle_and_worst([row.whole_s for row in alone if row.whole_s is not None])
    return {
        "fault": name,
        "alone": len(alone),
        "with another": len(all_of_it) - len(alone),
        "no ack, p50": gap_p50,
        "worst": gap_worst,
        "whole again, p50": whole_p50,
        "worst ": whole_worst,
        "lost": sum(row.lost for row in all_of_it),
        "out of order": sum(row.out_of_order for row in all_of_it),
        "duplicates": sum(row.duplicates for row in all_of_it),
        "redelivered": sum(row.redelivered for row in all_of_it),
    }


def _middle_and_worst(times_s: list[float]) -> tuple[str, str]:
    return (f"{statistics.median(times_s):.1f} s", f"{max(times_s):.1f} s") if times_s else ("", "")


def markdown(lines: list[Line]) -> str:
    """Return the table, and a line with the sums of all runs."""
    rows = table(fault_rows(lines))
    text = []
    if rows:
        text = ["| " + " | ".join(word.strip() for word in rows[0]) + " |", "|---" * len(rows[0]) + "|"]
        text += ["| " + " | ".join(map(str, row.values())) + " |" for row in rows]
    sums = ", ".join(f"{sum(line[name] for line in lines):,} {name}" for name in TOTALS)
    hours = sum(line["seconds"] for line in lines) / 3600
    broken = sum(bool(line["broken"]) for line in lines)
    count = sum(row.fault.count("+") + 1 for row in fault_rows(lines))
    text.append(f"\n{len(lines)} runs, {hours:.1f} h, {count} faults: {sums}, {broken} runs with a broken promise")
    return "\n".join(text)


if __name__ == "__main__":
    print(markdown(read_lines(Path(sys.argv[1]) if sys.argv[1:] else FILE)))
