"""Keeps worker processes running: dead ones are started again, all of them anew when a source file has changed.

A worker that says by its exit code that trying again does not help ends everything. Used by `pyromq run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from .. import logs
from ..ambient import Clock
from ..client.connect.background import first_ended

log = logs.get("pyromq.app")

CHECK_EVERY_S = 0.5  # between two checks of the source files
QUICK_S = 5.0  # a worker that ends sooner is started again more slowly each time
FIRST_PAUSE_S, MOST_PAUSE_S = 0.2, 10.0
GRACE_S = 60.0  # for handlers at a stop; consumers have a shorter one of their own
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Snapshot = dict[Path, int]


@dataclass(slots=True, eq=False, repr=False)
class Supervisor:
    """Event loop only. `hopeless`: exit codes that end all."""

    command: Sequence[str]
    workers: int
    _: KW_ONLY
    clock: Clock
    hopeless: Sequence[int] = ()
    watched: Path | None = None
    _running: dict[int, asyncio.subprocess.Process] = field(init=False, default_factory=dict)
    _stop_wanted: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _code: int = field(init=False, default=0)

    async def run(self, stop_wanted: asyncio.Event) -> int:
        """Return the exit code: 0 after a stop that was wanted."""
        keepers = [asyncio.create_task(self._keep(number)) for number in range(1, self.workers + 1)]
        stops: list[Coroutine[Any, Any, Any]] = [stop_wanted.wait(), self._stop_wanted.wait()]
        if self.watched is not None:
            stops.append(self._watch(self.watched))
        try:
            await first_ended(stops)
        finally:
            self._stop_wanted.set()
            await self._end_all()
            await asyncio.gather(*keepers)
        return self._code

    async def _keep(self, number: int) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stop_wanted.is_set():
            began = self.clock.monotonic()
            # Nothing is written to it: its end tells the worker that we are gone, however that came.
            process = await asyncio.create_subprocess_exec(*self.command, stdin=asyncio.subprocess.PIPE)
            self._running[number] = process
            log.info("worker started", worker=number, pid=process.pid)
            if self._stop_wanted.is_set():  # wanted while it was being made
                _terminate(process)
            code = await process.wait()
            del self._running[number]
            if self._stop_wanted.is_set():
                return
            if code in self.hopeless and self.watched is None:
                log.error("a worker cannot run, all end", worker=number, code=code)
                self._code = code
                self._stop_wanted.set()
                return
            is_quick = self.clock.monotonic() - began < QUICK_S
            if code != 0:
                log.warning("worker ended", worker=number, code=code)
                pause_s = min(pause_s * 2, MOST_PAUSE_S) if is_quick else FIRST_PAUSE_S
                with suppress(TimeoutError):
                    async with self.clock.timeout(pause_s):
                        await self._stop_wanted.wait()

    async def _end_all(self) -> None:
        for process in self._running.values():
            _terminate(process)
        waits = [asyncio.ensure_future(process.wait()) for process in self._running.values()]
        try:
            async with self.clock.timeout(GRACE_S):
                await asyncio.gather(*waits)
        except TimeoutError:
            for process in tuple(self._running.values()):
                log.warning("a worker did not end in time and is killed", pid=process.pid)
                with suppress(ProcessLookupError):
                    process.kill()

    async def _watch(self, folder: Path) -> None:
        """Stop the workers when sources change: each finishes its messages, and its keeper starts the next one."""
        known = await asyncio.to_thread(snapshot, folder)
        while True:
            await self.clock.sleep(CHECK_EVERY_S)
            now = await asyncio.to_thread(snapshot, folder)
            changed = sorted(path for path in known.keys() | now.keys() if known.get(path) != now.get(path))
            known = now
            if changed:
                log.info("sources changed, workers start anew", file=str(changed[0]), files=len(changed))
                for process in tuple(self._running.values()):
                    _terminate(process)


def snapshot(folder: Path) -> Snapshot:
    """Return the times of the Python files below a folder; hidden and installed ones are left out."""
    found: Snapshot = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).parts
        if any(part in _SKIPPED or part.startswith(".") for part in parts):
            continue
        with suppress(OSError):  # gone meanwhile
            found[path] = path.stat().st_mtime_ns
    return found


def _terminate(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
