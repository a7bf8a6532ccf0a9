"""One row of a Spark measurement: some runs to warm up, some that count. Also run by the Python of kafka.py."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench.measure.tree import Tree, forget_peaks, worker_peak

Run = Callable[[], object]
# rate: rows a second; cpu: CPU seconds of a million rows, and the same by kind of process; worker_mb: largest worker
Figure = dict[str, float]
_SLOW_S = 20.0  # a run that takes so long is warm by itself, and counts after one more


def measured(run: Run, rows: int) -> Figure:
    forget_peaks()
    took = timed(run)
    if took < _SLOW_S:
        run()
    tree, times = Tree(), 3 if took < _SLOW_S else 1
    seconds = [timed(run) for _ in range(times)]
    cpu = {kind: spent / times / rows * 1e6 for kind, spent in tree.parts().items()}
    return {"rate": rows / statistics.median(seconds), "cpu": sum(cpu.values()), "worker_mb": worker_peak() / 1e6} | cpu


def timed(run: Run) -> float:
    began = time.monotonic()
    run()
    return time.monotonic() - began
