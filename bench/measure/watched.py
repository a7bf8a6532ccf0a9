"""`pyromq broker` whose event loop is watched from outside (observer.py). `bench/tail.py` starts it.

The loop writes down each millisecond that it turned, where the observer's process can see it, and faulthandler writes
the stack of a thread when the observer asks it by a signal: neither needs the interpreter's lock, so that a stall is
seen while it lasts, whoever holds the lock. (Stacks of other threads than its own would be read while they change.)
What it finds goes to the file named by BENCH_STALLS, one JSON object a line. Not for production: it costs about a
percent.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import gc
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import Any

from pyromq.broker import broker
from pyromq.cli.main import main

TICK_S = 0.001
STALL_S = 0.004
# What the observer sees of the loop, each a double: when it turned last, the generation of garbage that is being
# collected and one (0: none), where the log ended then, how many stalls there were, and of the last ones (begin, end,
# bytes that were appended).
TURNED, COLLECTING, LOG_END, STALLS, FIRST_STALL = 0, 1, 2, 3, 8
STALL_CELLS, KEPT_STALLS = 3, 128


class Witness:
    def __init__(self, stalls: str, log: Any) -> None:
        self._log = log
        beats, stacks = f"{stalls}.beats", f"{stalls}.stacks"
        Path(beats).write_bytes(bytes(mmap.PAGESIZE))
        with open(beats, "r+b") as file:
            self._beats = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("d")
        self._beats[TURNED] = time.monotonic()
        self._beat()
        faulthandler.register(signal.SIGUSR1, open(stacks, "w"), all_threads=False)  # noqa: SIM115
        gc.callbacks.append(self._collected)
        me = (str(os.getpid()), str(threading.get_native_id()))
        command = [sys.executable, str(Path(__file__).with_name("observer.py")), *me, stalls]
        observer = subprocess.Popen(command)
        atexit.register(observer.kill)

    def _beat(self) -> None:
        beats, now = self._beats, time.monotonic()
        if now - beats[TURNED] >= STALL_S:
            at = FIRST_STALL + STALL_CELLS * (int(beats[STALLS]) % KEPT_STALLS)
            beats[at : at + STALL_CELLS] = array("d", (beats[TURNED], now, self._log.end - beats[LOG_END]))
            beats[STALLS] += 1
        beats[LOG_END] = self._log.end
        beats[TURNED] = now

    async def beat(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(TICK_S)

    def _collected(self, phase: str, details: dict[str, int]) -> None:
        """Garbage is being collected: the observer sees the generation and one; 0 means that none is."""
        self._beats[COLLECTING] = details["generation"] + 1.0 if phase == "start" else 0.0


def watch_broker() -> None:
    loops = broker.Broker.loops

    def with_witness(self: broker.Broker) -> Any:
        return [*loops(self), Witness(os.environ["BENCH_STALLS"], self.store.commit_log).beat()]

    broker.Broker.loops = with_witness  # type: ignore[method-assign]


if __name__ == "__main__":
    watch_broker()
    main()
