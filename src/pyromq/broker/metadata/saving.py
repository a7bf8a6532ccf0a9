"""Writes a table soon after it has changed: at once, but many changes share a write, and nobody is held up by it.

Only who sends to a topic that a send has just made waits until it is on disk: otherwise a kill could leave acked
messages in a topic that nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ... import logs
from ...ambient import Clock, RunBlocking
from ...errors import PyroError, RequestRefused
from ...store.files.disk import DiskError
from ...store.tables.json_tables import JsonTable
from ...store.tables.table_saver import FOLD_S, TableSaver

log = logs.get("pyromq.broker")

RETRY_S = 5.0  # after a write that failed: a full disk may have room again


class ChangeLog(Protocol):
    """Where changes of tables go before the tables go to disk: the log of an elected set (`replication/tables`)."""

    def soon(self) -> None:
        """Write down what has changed, at the end of this turn of the loop."""
        ...

    def put(self) -> None:
        """Write down what has changed. RequestRefused: that cannot be, and is tried with the next call."""
        ...

    async def confirmed(self) -> None:
        """Return once nobody can take it back. RequestRefused: that is not known in time."""
        ...


class SaveSoon:
    """Of one table. Event loop only. `close` once nothing changes any more. `fold_s`: see `TableSaver`.

    With a `change_log`, nothing is on disk that is not there before."""

    def __init__(
        self,
        table: JsonTable,
        run_blocking: RunBlocking,
        clock: Clock,
        fold_s: float = FOLD_S,
        change_log: ChangeLog | None = None,
    ) -> None:
        self.table = table
        self._change_log = change_log
        self._saver = TableSaver(table, run_blocking, clock, fold_s)
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._written = 0

    def changed(self) -> None:
        if self._change_log is not None:
            self._change_log.soon()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._save())

    @property
    def is_behind(self) -> bool:
        """Return whether the table may have what is not on disk, and nobody has said so."""
        return self._written < self.table.changes

    async def saved(self) -> None:
        """Wait until everything that changed before is on disk: then an administrator may be told."""
        await self._save_now()
        if self._change_log is not None:
            await self._change_log.confirmed()

    async def _save_now(self) -> None:
        if self._change_log is not None:
            self._change_log.put()
        await self._saver.saved()

    async def _save(self) -> None:
        """Write until nothing is new: what changes while a write is under way is not in it."""
        while self._written < self.table.changes:
            wanted = self.table.changes
            try:
                await self._save_now()
                self._written = wanted
            except Exception as fault:  # whatever it was: nobody else would write it later
                log.error("a table cannot be written, trying again", table=self.table.name, why=str(fault))
                await self._clock.sleep(RETRY_S)

    def abandon(self) -> None:
        """Drop the write before the event loop's first turn: nothing was begun, and the file stays as it is."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            if self._change_log is not None:
                self._change_log.put()
            await self._saver.close()
        except PyroError as fault:
            log.error("a table could not be written at the end", table=self.table.name, why=str(fault))


def for_administrators(saved: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return `saved` with a refusal for whoever waits, where the table cannot be written."""

    async def wait() -> None:
        try:
            await saved()
        except DiskError as fault:
            raise RequestRefused(
                f"changed, but not on disk yet, and lost if the broker stops before it is: {fault}. It is tried again"
            ) from None

    return wait


class NewTopics:
    """Topics that a send has just made. Event loop only. Empty nearly always: a topic leaves it when it is on disk.

    `saved` returns once everything that changed before is there.
    """

    def __init__(self, saved: Callable[[], Awaitable[None]]) -> None:
        self._saved = saved
        self._saving: dict[str, asyncio.Future[None]] = {}

    def made(self, topic: str) -> None:
        task = asyncio.ensure_future(self._save(topic))
        task.add_done_callback(_seen)
        self._saving[topic] = task

    def __contains__(self, topic: str) -> bool:
        return topic in self._saving

    def saving(self, topic: str) -> Awaitable[None] | None:
        """Return what to await before a put into the topic. It raises what the write raised; asking again retries."""
        task = self._saving.get(topic)
        if task is None:
            return None
        if task.done():  # it failed, or it would not be here
            self.made(topic)
            task = self._saving[topic]
        return asyncio.shield(task)

    async def _save(self, topic: str) -> None:
        await self._saved()
        if self._saving.get(topic) is asyncio.current_task():  # else it was deleted and made again: that one waits on
            del self._saving[topic]


def _seen(task: asyncio.Future[None]) -> None:
    """Take note of the outcome. The table's own writer logs a failure; here it only must not count as overlooked."""
    if not task.cancelled():
        task.exception()
