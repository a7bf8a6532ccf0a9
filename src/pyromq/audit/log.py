"""The audit log as a running daemon sees it: an event is noted at once, and written soon by a helper thread.

Noted loop only. Noting never waits and never fails. What is noted while a write is under way goes with the next one;
what cannot be written (a full disk) stays, is tried again, and beyond `MOST_WAITING` events the newest are counted
instead of kept. What repeats itself (refusals, calls that only read) is one line in a while with the number of times.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .. import logs
from ..ambient import Clock, RunBlocking, Timer
from .writer import ChainWriter, Noted

log = logs.get("pyromq.audit")

MOST_WAITING = 10_000
MOST_KEYS = 4_096  # what repeats itself, told apart; further ones count together
RETRY_S = 5.0
_REST = ("", "the rest")


@dataclass(slots=True)
class _Repeated:
    kind: str
    fields: dict[str, Any]
    times: int = 0  # since the last line about it


@dataclass(slots=True, eq=False, repr=False)
class AuditLog:
    """`close` writes what is left."""

    writer: ChainWriter
    clock: Clock
    run_blocking: RunBlocking
    repeat_s: float
    _waiting: list[Noted] = field(default_factory=list)
    _lost: int = 0
    _task: asyncio.Task[None] | None = None
    _repeated: dict[tuple[str, ...], _Repeated] = field(default_factory=dict)
    _sweep: Timer | None = None
    _noted: int = 0  # events so far, and how many of them are on the medium
    _written: int = 0
    _waiters: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)  # until so many are written
    _retry: asyncio.Future[None] | None = None  # waited for after a fault
    _fails: bool = False
    _is_closing: bool = False

    def note(self, kind: str, **fields: Any) -> None:
        """Write down an event. Fields are values of JSON; none of them may be a secret or a body."""
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
            return
        if self._lost:
            fields["lostBefore"], self._lost = self._lost, 0
        self._waiting.append(Noted(self.clock.now_ms(), kind, fields))
        self._noted += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())

    def note_seldom(self, key: tuple[str, ...], kind: str, **fields: Any) -> None:
        """Write down an event that may come very often: the first of a key at once, the others as a number."""
        known = self._repeated.get(key)
        if known is None and len(self._repeated) >= MOST_KEYS:
            key, known = _REST, self._repeated.get(_REST)
            fields = {"what": f"more than {MOST_KEYS} different ones at a time"}
        if known is not None:
            known.times += 1
            return
        self._repeated[key] = _Repeated(kind, fields)
        self.note(kind, **fields)
        if self._sweep is None:
            self._sweep = self.clock.call_later(self.repeat_s, self._write_repeated)

    def _write_repeated(self) -> None:
        """Write how often each repeated itself, and forget those that have stopped."""
        self._sweep = None
        for key, one in list(self._repeated.items()):
            if not one.times:
                del self._repeated[key]
                continue
            self.note(one.kind, **{**one.fields, "moreTimes": one.times})
            one.times = 0
        if self._repeated and not self._is_closing:
            self._sweep = self.clock.call_later(self.repeat_s, self._write_repeated)

    async def _write(self) -> None:
        while self._waiting:
            events = [*self._waiting]
            try:
                await self.run_blocking(partial(self.writer.append, events))
            except OSError as fault:
                log.error(
                    "the audit log cannot be written, and is tried again",
                    folder=self.writer.folder.path,
                    why=str(fault),
                    waiting=len(self._waiting),
                )
                self._fails = True
                self._wake(self._noted)
                if self._is_closing:
                    return
                await self._pause()
            else:
                self._fails = False
                del self._waiting[: len(events)]
                self._written += len(events)
                self._wake(self._written)

    def _wake(self, until: int) -> None:
        """Wake those who wait for no more than the first so many events."""
        due = [waiter for wanted, waiter in self._waiters if wanted <= until]
        self._waiters = [one for one in self._waiters if one[0] > until]
        for waiter in due:
            if not waiter.done():
                waiter.set_result(None)

    async def _pause(self) -> None:
        """Wait a while, or until the end."""
        self._retry = asyncio.get_running_loop().create_future()
        timer = self.clock.call_later(RETRY_S, self._end_pause)
        try:
            await self._retry
        finally:
            timer.cancel()

    def _end_pause(self) -> None:
        if self._retry is not None and not self._retry.done():
            self._retry.set_result(None)

    async def written(self) -> None:
        """Return once what was noted before is on the medium, or could not be written: then it is tried again, and
        nobody is held up by it."""
        if self._waiting and not self._fails:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((self._noted, waiter))
            await waiter

    async def flushed(self) -> None:
        """Return once everything noted before is on the medium."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def close(self) -> None:
        """Write what is left, and how often what repeats itself did; then leave the files."""
        self._is_closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        self._write_repeated()
        self._end_pause()
        await self.flushed()
        if self._waiting:
            log.error("the end of the audit log could not be written", events=len(self._waiting))
        await self.run_blocking(self.writer.close)
