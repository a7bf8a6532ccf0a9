"""Figures as lines of JSON beside the tables that are printed, for bench/table.py: one line for each row and server.

`--json FILE` of the scripts appends to it, so that what was measured before a failure is not lost.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any


def note(file: str | None, row: str, server: str, runs: Sequence[dict[str, Any]], what: str = "") -> None:
    """All runs of a server in a row; nothing without a file."""
    if file is None:
        return
    line = {"row": row, "what": what, "server": server, "load": round(os.getloadavg()[0], 2), "at": stamp()}
    kept = [{name: value for name, value in run.items() if not isinstance(value, list | dict)} for run in runs]
    with open(file, "a") as out:
        print(json.dumps({**line, "runs": kept}), file=out)


def stamp() -> str:
    return time.strftime("%Y-%m-%d %H:%M")


def shown(values: Sequence[float]) -> str:
    """Median, and the spread if there are several."""
    text = number(statistics.median(values))
    return text if len(values) == 1 else f"{text} ({number(min(values))} to {number(max(values))})"


def number(value: float) -> str:
    """Three figures at least, in thousands."""
    if value >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def heading(title: str, command: str) -> None:
    """What comes, before it is measured: with the load of the machine, which decides what figures are worth."""
    print(f"\n{title} (`{command}`), {stamp()}, load {os.getloadavg()[0]:.1f}\n", flush=True)
