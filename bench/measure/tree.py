"""CPU and memory of this process and all that descend from it, by /proc: a JVM, its Python workers, brokers."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may hold anything; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except OSError:
        return []


def descendants(root: int) -> list[int]:
    parents = {int(each.name): _stat(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()}
    found, waiting = [root], [root]
    while waiting:
        parent = waiting.pop()
        young = [pid for pid, fields in parents.items() if len(fields) > 1 and int(fields[1]) == parent]
        found += young
        waiting += young
    return found


class Tree:
    """CPU seconds since it was made, with those of children that ended and were waited for."""

    def __init__(self) -> None:
        self._before = self._total()

    def cpu_s(self) -> float:
        return self._total() - self._before

    def _total(self) -> float:
        fields = [_stat(pid) for pid in descendants(os.getpid())]
        return sum(sum(int(word) for word in each[11:15]) for each in fields if each) / _TICK


def worker_peak() -> int:
    """Bytes that the largest of Spark's Python workers ever had."""
    peaks = [0]
    for pid in descendants(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text("latin-1")
        except OSError:
            continue
        if b"pyspark.daemon" in command:
            peaks += [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)
