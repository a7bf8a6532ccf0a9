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
from pathlib import Path
from typing import Any

from pyromq.broker import broker
from pyromq.cli.main import main

TICK_S = 0.001


class Witness:
    def __init__(self, stalls: str) -> None:
        beats, stacks = f"{stalls}.beats", f"{stalls}.stacks"
        Path(beats).write_bytes(bytes(mmap.PAGESIZE))
        with open(beats, "r+b") as file:
            self._beats = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("d")
        self._beat()
        faulthandler.register(signal.SIGUSR1, open(stacks, "w"), all_threads=False)  # noqa: SIM115
        gc.callbacks.append(self._collected)
        me = (str(os.getpid()), str(threading.get_native_id()))
        command = [sys.executable, str(Path(__file__).with_name("observer.py")), *me, stalls]
        observer = subprocess.Popen(command)
        atexit.register(observer.kill)

    def _beat(self) -> None:
        self._beats[0] = time.monotonic()

    async def beat(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(TICK_S)

    def _collected(self, phase: str, details: dict[str, int]) -> None:
        """Garbage is being collected: the observer sees the generation and one; 0 means that none is."""
        self._beats[1] = details["generation"] + 1.0 if phase == "start" else 0.0


def watch_broker() -> None:
    loops = broker.Broker.loops

    def with_witness(self: broker.Broker) -> Any:
        return [*loops(self), Witness(os.environ["BENCH_STALLS"]).beat()]

    broker.Broker.loops = with_witness  # type: ignore[method-assign]


if __name__ == "__main__":
    watch_broker()
    main()
