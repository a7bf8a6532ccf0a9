"""Looks every millisecond whether a broker's event loop turns, from a process of its own; watched.py starts it.

While the loop stands still it notes, each millisecond, where its thread is: running, or waiting for a CPU, or in which
system call and at what in Linux (/proc/PID/task/TID/syscall and stack). Once a stall it asks for the Python stacks of
that thread and of helper threads that are running. `no_cpu_ms` is how long the loop's thread merely waited for a CPU
(schedstat); what the machine below a virtual one takes away, `pauses.c` sees. It asks for real-time priority, so as to
see what others do when they keep a CPU busy.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TextIO

TICK_S = 0.001
STALL_S = 0.004
TURNED, COLLECTING, STALLS, FIRST_STALL, STALL_CELLS, KEPT_STALLS = 0, 1, 3, 8, 3, 128  # as in watched.py
ASKED_S = 0.02  # so long the stacks may take to be written
# By number, on x86-64: those that a broker's threads make. 202 is how a thread waits for the interpreter's lock.
CALLS = {0: "read", 1: "write", 3: "close", 5: "fstat", 17: "pread", 18: "pwrite", 20: "writev", 44: "sendto"}
CALLS |= {45: "recvfrom", 47: "recvmsg", 74: "fsync", 75: "fdatasync", 77: "ftruncate", 82: "rename", 87: "unlink"}
CALLS |= {137: "statfs", 202: "futex", 232: "epoll_wait", 257: "openat", 262: "fstatat", 263: "unlinkat"}
CALLS |= {281: "epoll_pwait", 285: "fallocate", 295: "preadv", 296: "pwritev", 306: "syncfs", 327: "preadv2"}
CALLS |= {9: "mmap", 10: "mprotect", 11: "munmap", 12: "brk", 25: "mremap", 28: "madvise", 230: "clock_nanosleep"}
# Steps of Linux on the way into any wait: what they are called from says more.
DULL = re.compile(
    r"schedule|^__?x64_|^do_syscall|^entry_|^ksys_|^vfs_|_file_write_iter$|^io_|^wait_|^folio_wait|^bit_wait"
)


FRAME = re.compile(r'  File "(?:.*/)?([^"/]+)", line (\d+) in (.*)')
TGKILL = 234  # by number, on x86-64: a signal to one thread


class Thread:
    """One thread of the broker, as /proc shows it."""

    def __init__(self, pid: int, tid: int) -> None:
        self._folder = Path(f"/proc/{pid}/task/{tid}")

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError:  # it ended, or this system does not tell
            return ""

    def waited_s(self) -> float:
        """So long it has waited for a CPU, in all."""
        return int((self._read("schedstat") or "0 0").split()[1]) / 1e9

    def place(self) -> str:
        number = (self._read("syscall").split() or [""])[0]
        if not number.isdigit():
            return "running"
        where = [line.split()[-1].partition("+")[0] for line in self._read("stack").splitlines()]
        told = [name for name in where if not DULL.search(name)][:2]
        call = f"system call {CALLS.get(int(number), number)}"
        return f"{call} in {' < '.join(told)}" if told and number != "202" else call


class Stacks:
    """What faulthandler writes: of each thread, the innermost frame first."""

    def __init__(self, pid: int, path: str) -> None:
        self._pid, self._path = pid, path
        self._signal = ctypes.CDLL(None).syscall

    def ask(self, tid: int) -> list[str]:
        before = os.path.getsize(self._path)
        self._signal(TGKILL, self._pid, tid, int(signal.SIGUSR1))
        end, size = time.monotonic() + ASKED_S, before
        while time.monotonic() < end:  # it is written in many small steps
            time.sleep(TICK_S / 2)
            size, last = os.path.getsize(self._path), size
            if size == last > before:
                break
        with open(self._path) as file:
            file.seek(before)
            return [f"{name} ({path}:{line})" for path, line, name in FRAME.findall(file.read())]


class Observer:
    def __init__(self, pid: int, tid: int, stalls: str) -> None:
        self._pid, self._tid = pid, tid
        self._loop = Thread(pid, tid)
        self._stacks = Stacks(pid, f"{stalls}.stacks")
        self._out: TextIO = open(stalls, "a")  # noqa: SIM115
        with open(f"{stalls}.beats", "rb") as file:
            mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE, access=mmap.ACCESS_READ)
        self._beats = memoryview(mapped).cast("d")
        self._seen = 0

    def turned(self) -> float:
        return self._beats[TURNED]

    def run(self) -> None:
        waited = self._loop.waited_s()
        while os.path.exists(f"/proc/{self._pid}"):
            time.sleep(TICK_S)
            turned = self.turned()
            if time.monotonic() - turned >= STALL_S:
                self._watch(turned, waited)
            waited = self._loop.waited_s()

    def _watch(self, turned: float, waited: float) -> None:
        """The loop itself notes how long a stall was: asking for stacks takes longer than most of them."""
        places, others = Counter([self._place()]), self._others()
        frames = self._stacks.ask(self._tid)
        beside = [self._stacks.ask(tid) for tid, place in others.items() if place == "running"]
        while self.turned() == turned and os.path.exists(f"/proc/{self._pid}"):
            places[self._place()] += 1
            time.sleep(TICK_S)
        waited_s, behind_s = self._loop.waited_s() - waited, time.monotonic() - time.time()
        for begin, end, appended in self._noted():
            line = {
                "ms": round((end - behind_s) * 1000, 1),
                "stall_ms": round((end - begin) * 1000, 1),
                "no_cpu_ms": round(min(end - begin, waited_s) * 1000, 1),
                "appended": round(appended),
                "stack": [*reversed(frames[:5]), places.most_common(1)[0][0]],
                "places": places,
                "others": list(others.values()),
                "beside": [" < ".join(stack[:3]) for stack in beside if stack],
            }
            print(json.dumps(line), file=self._out, flush=True)

    def _noted(self) -> list[tuple[float, float, float]]:
        """Stalls since the last time. Those behind the first happened while it was looked at: they share its stack."""
        until = int(self._beats[STALLS])
        cells = [FIRST_STALL + STALL_CELLS * (number % KEPT_STALLS) for number in range(self._seen, until)]
        self._seen = until
        return [(self._beats[at], self._beats[at + 1], self._beats[at + 2]) for at in cells]

    def _place(self) -> str:
        collecting = int(self._beats[COLLECTING])
        return f"collecting garbage, generation {collecting - 1}" if collecting else self._loop.place()

    def _others(self) -> dict[int, str]:
        """Where the helper threads are, as far as they do not sleep."""
        tids = [int(tid) for tid in os.listdir(f"/proc/{self._pid}/task")]
        places = {tid: Thread(self._pid, tid).place() for tid in tids if tid != self._tid}
        return {tid: place for tid, place in places.items() if not place.endswith(("futex", "clock_nanosleep"))}


if __name__ == "__main__":
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    Observer(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]).run()
