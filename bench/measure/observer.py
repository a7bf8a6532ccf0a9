"""Looks every millisecond whether a broker's event loop turns, from a process of its own; watched.py starts it.

While the loop stands still it notes, each millisecond, where its thread is: running, or waiting for a CPU, or in which
system call and at what in Linux (/proc/PID/task/TID/syscall and stack). Once a stall it asks for the Python stacks of
all threads. `no_cpu_ms` is how long the loop's thread merely waited for a CPU (schedstat), or the CPUs of a virtual
machine for the machine below it (what /proc/stat calls stolen, in hundredths of a second).
"""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TextIO

TICK_S = 0.001
STALL_S = 0.004
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


def _stolen_s() -> float:
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / 100 / (os.cpu_count() or 1)


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
        return int((self._read("schedstat").split() or [0, 0])[1]) / 1e9 + _stolen_s()

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

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, pid: int) -> dict[int, list[str]]:
        before = os.path.getsize(self._path)
        os.kill(pid, signal.SIGUSR1)
        end = time.monotonic() + ASKED_S
        while time.monotonic() < end and os.path.getsize(self._path) == before:
            time.sleep(TICK_S / 4)
        with open(self._path) as file:
            file.seek(before)
            return _parsed(file.read())


def _parsed(text: str) -> dict[int, list[str]]:
    threads: dict[int, list[str]] = {}
    frames: list[str] = []
    for line in text.splitlines():
        if head := re.match(r"(?:Current thread|Thread) 0x([0-9a-f]+)", line):
            frames = threads[int(head[1], 16)] = []
        elif frame := re.match(r'  File "(?:.*/)?([^"/]+)", line (\d+) in (.*)', line):
            frames.append(f"{frame[3]} ({frame[1]}:{frame[2]})")
    return threads


class Observer:
    def __init__(self, pid: int, tid: int, ident: int, stalls: str) -> None:
        self._pid, self._ident = pid, ident
        self._loop = Thread(pid, tid)
        self._tid = str(tid)
        self._stacks = Stacks(f"{stalls}.stacks")
        self._out: TextIO = open(stalls, "a")  # noqa: SIM115
        with open(f"{stalls}.beats", "rb") as file:
            mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE, access=mmap.ACCESS_READ)
        self._beats = memoryview(mapped).cast("d")

    def turned(self) -> float:
        return self._beats[0]

    def run(self) -> None:
        waited = self._loop.waited_s()
        while os.path.exists(f"/proc/{self._pid}"):
            time.sleep(TICK_S)
            turned = self.turned()
            if time.monotonic() - turned >= STALL_S:
                self._watch(turned, waited)
            waited = self._loop.waited_s()

    def _watch(self, turned: float, waited: float) -> None:
        places, others = Counter([self._place()]), self._others()
        threads = self._stacks.ask(self._pid)
        while self.turned() == turned and os.path.exists(f"/proc/{self._pid}"):
            places[self._place()] += 1
            time.sleep(TICK_S)
        frames = threads.pop(self._ident, [])
        busy = [stack for stack in threads.values() if stack and not stack[0].startswith(("_worker ", "wait "))]
        line = {
            "ms": int(time.time() * 1000),
            "stall_ms": round((time.monotonic() - turned) * 1000, 1),
            "no_cpu_ms": round((self._loop.waited_s() - waited) * 1000, 1),
            "stack": [*reversed(frames[:5]), places.most_common(1)[0][0]],
            "places": places,
            "others": others,
            "beside": [" < ".join(stack[:3]) for stack in busy],
        }
        print(json.dumps(line), file=self._out, flush=True)

    def _place(self) -> str:
        collecting = int(self._beats[1])
        return f"collecting garbage, generation {collecting - 1}" if collecting else self._loop.place()

    def _others(self) -> list[str]:
        """Where the helper threads are, as far as they do not sleep."""
        tids = [tid for tid in os.listdir(f"/proc/{self._pid}/task") if tid != self._tid]
        places = [Thread(self._pid, int(tid)).place() for tid in tids]
        return [place for place in places if not place.endswith(("futex", "clock_nanosleep"))]


if __name__ == "__main__":
    Observer(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]).run()
