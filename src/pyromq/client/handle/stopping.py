"""The end of a push consumer's handlers: they may finish, are cancelled after a time, and left behind after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from ... import logs
from ...ambient import Clock
from ..connect.background import Tasks
from . import places

log = logs.get("pyromq.client")

CLEAN_UP_S = 5.0  # for what handlers do when they are cancelled at a stop


async def finish_handlers(
    handlers: Collection[asyncio.Task[None]],
    grace_s: float,
    clock: Clock,
    tasks: Tasks,
    on_cut: Callable[[], None] = lambda: None,
) -> None:
    """Let the running handlers end; cancel those that need longer than the grace (`on_cut`). It ends in any case."""
    try:
        async with clock.timeout(grace_s):
            if handlers:
                await asyncio.wait(handlers)
    except TimeoutError:
        if grace_s > 0:
            running = [task for task in handlers if not task.done()]
            at = ", ".join(sorted({places.of_coroutine(task.get_coro()) for task in running}))
            log.warning("handlers did not end in time and are cancelled", running=len(running), at=at)
        on_cut()
        await _cut(handlers, clock, tasks)


async def _cut(handlers: Collection[asyncio.Task[None]], clock: Clock, tasks: Tasks) -> None:
    """Cancel the handlers, and leave those behind that go on all the same."""
    for task in handlers:
        task.cancel()
    with suppress(TimeoutError):
        async with clock.timeout(CLEAN_UP_S):
            await asyncio.wait(handlers)
    for task in handlers:
        if not task.done():
            at = places.of_coroutine(task.get_coro())
            log.error("a handler goes on although it was cancelled: it is left behind, its message not done", at=at)
            tasks.abandon(task)
