"""`pyromq broker` with a witness: what the event loop was doing whenever it stood still. `bench/tail.py` starts it.

A thread looks every millisecond when the loop last turned. If that is too long ago it notes the loop's stack and the
system call that it is in, and when the loop goes on, how long the stall was and how much of it the loop's thread merely
waited for a CPU (schedstat). What the native kernel does shows no frame of its own: there the system call tells.
Written to the file named by BENCH_STALLS, one JSON object a line. Not for production: it costs about a percent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from pyromq.broker import broker
from pyromq.cli.main import main

TICK_S = 0.001
STALL_S = 0.004
# By number, on x86-64: those that a broker's loop makes. 202 is how a thread waits for the GIL.
CALLS = {
    0: "read",
    1: "write",
    18: "pwrite",
    20: "writev",
    44: "sendto",
    45: "recvfrom",
    47: "recvmsg",
    75: "fdatasync",
}
CALLS |= {77: "ftruncate", 87: "unlink", 202: "futex", 232: "epoll_wait", 257: "openat", 263: "unlinkat"}
CALLS |= {281: "epoll_pwait", 285: "fallocate", 295: "preadv", 296: "pwritev", 327: "preadv2", 328: "pwritev2"}


class Witness:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._turned = time.monotonic()
        self._thread = threading.get_ident()
        self._schedstat = open(f"/proc/self/task/{threading.get_native_id()}/schedstat")  # noqa: SIM115
        self._call = Path(f"/proc/self/task/{threading.get_native_id()}/syscall")
        threading.Thread(target=self._watch, daemon=True).start()

    async def beat(self) -> None:
        while True:
            self._turned = time.monotonic()
            await asyncio.sleep(TICK_S)

    def _waited_s(self) -> float:
        """So long has the loop's thread waited for a CPU, in all."""
        self._schedstat.seek(0)
        return int(self._schedstat.read().split()[1]) / 1e9

    def _watch(self) -> None:
        waited = self._waited_s()
        while True:
            time.sleep(TICK_S)
            turned = self._turned
            if time.monotonic() - turned < STALL_S:
                waited = self._waited_s()
                continue
            stack = [*self._stack(), self._system_call()]
            while self._turned == turned:
                time.sleep(TICK_S / 4)
            self._note(time.monotonic() - turned, self._waited_s() - waited, stack)
            waited = self._waited_s()

    def _stack(self) -> list[str]:
        frame = sys._current_frames().get(self._thread)
        return [f"{one.name} ({os.path.basename(one.filename)}:{one.lineno})" for one in traceback.extract_stack(frame)]

    def _system_call(self) -> str:
        try:
            number = self._call.read_text().split()[0]
        except OSError:  # not every kernel tells
            return "in some system call, or computing"
        if not number.isdigit():
            return "computing"
        return f"system call {CALLS.get(int(number), number)}"

    def _note(self, stall_s: float, waited_s: float, stack: list[str]) -> None:
        line = {
            "ms": int(time.time() * 1000),
            "stall_ms": round(stall_s * 1000, 1),
            "no_cpu_ms": round(waited_s * 1000, 1),
            "stack": stack[-6:],
        }
        print(json.dumps(line), file=self._out, flush=True)


def watch_broker() -> None:
    loops = broker.Broker.loops

    def with_witness(self: broker.Broker) -> Any:
        witness = Witness(open(os.environ["BENCH_STALLS"], "a"))  # noqa: SIM115
        return [*loops(self), witness.beat()]

    broker.Broker.loops = with_witness  # type: ignore[method-assign]


if __name__ == "__main__":
    watch_broker()
    main()
