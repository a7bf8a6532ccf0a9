"""Pops whose messages are never forgotten: a call goes on when whoever waits for it is cancelled.

A broker that has handed out messages waits for their invisible time; so what comes for nobody is handed to `abandon`,
which gives it back. An ordered call without an answer is repeated under its own name, and gets the same messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeAlias

from ... import logs
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Tasks
from ..errors import TimedOut, Unreachable
from .pop_calls import Handed, PopCalls, PopRequest

log = logs.get("pyromq.client")

_Call: TypeAlias = Callable[[PopRequest], Coroutine[Any, Any, list[Handed]]]


class KeptPops:
    """Event loop only. One per consumer."""

    def __init__(self, calls: PopCalls, new_id: Callable[[], str], abandon: Callable[[list[Handed]], None]) -> None:
        self._calls = calls
        self._new_id = new_id
        self._abandon = abandon
        self._attempts: dict[MessageQueue, list[str]] = {}  # of ordered calls without an answer
        self._tasks = Tasks(lambda fault: log.debug("a pop failed", fault=repr(fault)))

    async def begin(self, asked: PopRequest) -> list[Handed]:
        """Let the group begin, and return what is there already. If this is cancelled, it is abandoned."""
        return await self._kept(self._calls.begin, asked)

    async def pop(self, asked: PopRequest) -> list[Handed]:
        """Return the messages. If this is cancelled, what the call brings is abandoned."""
        return await self._kept(self._calls.pop, asked)

    async def _kept(self, call: _Call, asked: PopRequest) -> list[Handed]:
        task = self._tasks.start(self._named(call, asked) if asked.is_ordered else call(asked))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._drop)
            raise

    def _drop(self, done: asyncio.Task[list[Handed]]) -> None:
        if not done.cancelled() and done.exception() is None and done.result():
            self._abandon(done.result())

    async def _named(self, call: _Call, asked: PopRequest) -> list[Handed]:
        unanswered = self._attempts.setdefault(asked.place, [])
        attempt = unanswered.pop() if unanswered else self._new_id()
        try:
            return await call(replace(asked, attempt=attempt))
        except (TimedOut, Unreachable):
            unanswered.append(attempt)
            raise
