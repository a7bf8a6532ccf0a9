"""CPU and memory of this process and all that descend from it, by /proc: a JVM, its Python workers, brokers."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_BROKERS = (b"\0broker\0", b"kafka.Kafka", b"BrokerStartup")


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
        # Workers whose daemon ended become ours, and their seconds stay in the sum.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._before = self._total()

    def cpu_s(self) -> float:
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """By kind of process: jvm (and what it started and ended), workers (Spark's Python), broker, driver."""
        now = self._total()
        return {kind: seconds - self._before.get(kind, 0.0) for kind, seconds in now.items()}

    def _total(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for pid in descendants(os.getpid()):
            fields = _stat(pid)
            if fields:
                kind = _kind(pid)
                found[kind] = found.get(kind, 0.0) + sum(int(word) for word in fields[11:15]) / _TICK
        return found


def _kind(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "driver"
    if b"pyspark.daemon" in command or b"python_streaming_source_runner" in command:
        return "workers"
    if any(name in command for name in _BROKERS):
        return "broker"
    return "jvm" if b"SparkSubmit" in command else "driver"


def worker_peak() -> int:
    """Bytes that the largest of Spark's Python workers had since `forget_peaks`."""
    peaks = [0]
    for pid in _workers():
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text("latin-1")
            peaks += [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


def forget_peaks() -> None:
    for pid in _workers():
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM begins anew


def _workers() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if _kind(pid) == "workers"]
