"""When a table is written: at once, with one write for many changes, and a large one through its journal.

The journal (table_journal.py) makes a change durable by a small append; some seconds later the table is written whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ... import logs
from ...ambient import Clock
from ...errors import PyroError
from .json_tables import JsonTable

log = logs.get("pyromq.store")

FOLD_S = 3.0  # how long a change may be in the journal alone, in a table that other programs read


@dataclass(slots=True, eq=False, repr=False)
class TableSaver:
    """Lets many changes share one write. Event loop only.

    `run_blocking` runs a function in a helper thread and resumes the caller with its result. With a `clock`, changes of
    a large table go into its journal, and the table itself is written some seconds later; `close` is then needed.
    """

    table: JsonTable
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]
    clock: Clock | None = None
    fold_s: float = FOLD_S
    _folding: asyncio.Task[None] | None = field(default=None, init=False)
    _on_disk: int = field(init=False)
    _round: _Round | None = field(default=None, init=False)
    writes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._on_disk = self.table.changes

    async def saved(self) -> None:
        """Return once every change made before this call is on disk. Raises what the write raised.

        After an error the changes are still there and the next call tries again: into a new file, so that a failed sync
        of the old one proves nothing about it."""
        wanted = self.table.changes
        while self._on_disk < wanted:
            if self._round is None:
                self._round = _Round(self._write)
            shared = self._round
            try:
                # A caller that gives up must not take the write of all others with it.
                await asyncio.shield(shared.task)
            except PyroError:
                if shared.covers >= wanted:
                    raise

    async def _write(self, shared: _Round) -> None:
        # Begins a turn of the loop after it was asked for: all who were woken by the last write share this one.
        shared.covers = self.table.changes
        small = self.clock is not None and not shared.whole
        write = self.table.add_changes() if small else self.table.snapshot()
        try:
            await self.run_blocking(write)
            self._on_disk = shared.covers
            self.writes += 1
        finally:
            self._round = None
        if self.clock is not None and self.table.has_journal and (self._folding is None or self._folding.done()):
            self._folding = asyncio.create_task(self._fold_later(self.clock))

    async def _fold_later(self, clock: Clock) -> None:
        """Write the table whole after a while, so that other programs never read one that is more than seconds old."""
        while self.table.has_journal:
            await clock.sleep(self.fold_s)
            with suppress(PyroError):  # it was logged
                await self._fold()

    async def _fold(self) -> None:
        """Write the table as a whole, so that it needs its journal no more."""
        while self._round is not None:
            await asyncio.wait({self._round.task})
        if self.table.has_journal:
            self._round = _Round(self._write, whole=True)
            await asyncio.shield(self._round.task)

    async def close(self) -> None:
        """Write everything into the table itself, for the last time. Raises what the write raised."""
        if self._folding is not None:
            self._folding.cancel()
            await asyncio.gather(self._folding, return_exceptions=True)
        await self.saved()
        await self._fold()


class _Round:
    """One write and the number of changes that it covers."""

    def __init__(self, write: Callable[[_Round], Coroutine[Any, Any, None]], whole: bool = False) -> None:
        self.covers = -1
        self.whole = whole  # not only what changed
        self.task = asyncio.create_task(write(self))
        self.task.add_done_callback(_seen)


def _seen(task: asyncio.Task[None]) -> None:
    """Log a failed write even if every waiter has given up."""
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("a table could not be written", reason=fault)
