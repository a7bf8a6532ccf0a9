"""The helper threads of a daemon, which block so that the event loop does not. They exist before anything is served:
where peers hold all memory later, no thread could be started any more, and whatever needed one would fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any, TypeVar

from .. import logs
from ..ambient import RunBlocking
from .memory import spare_address_space

log = logs.get("pyromq.machine")

T = TypeVar("T")


@contextmanager
def helper_threads(count: int) -> Iterator[RunBlocking]:
    """Start the threads, and end them when their last call is done."""
    spare_address_space()
    with ThreadPoolExecutor(count, "pyromq-blocking") as pool:
        together = Barrier(count)  # each takes one call and waits for the others: so all of them are started
        for started in [pool.submit(together.wait) for _ in range(count)]:
            started.result()
        yield _in(pool)


def _in(pool: ThreadPoolExecutor) -> RunBlocking:
    async def run_blocking(call: Callable[[], T]) -> T:
        """Run a call in a thread. A caller that is cancelled still waits for it: a planned flush is never left out."""
        begun = asyncio.get_running_loop().run_in_executor(pool, call)
        try:
            return await asyncio.shield(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(_log_fault)
            await asyncio.wait((begun,))
            raise

    return run_blocking


def _log_fault(ended: asyncio.Future[Any]) -> None:
    """Log the fault of a call that nobody waits for any more, instead of leaving a traceback to Python."""
    if not ended.cancelled() and (fault := ended.exception()) is not None:
        log.warning("a job failed while the daemon stopped", why=f"{type(fault).__name__}: {fault}")
