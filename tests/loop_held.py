"""How long single callbacks hold the event loop, in CPU time of its thread: what other programs do does not count.

Every callback of asyncio's own loop passes here, whatever it serves: received bytes, handlers, answers, timers, tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Held:
    """The longest callback since `begin`: how long it ran, and what it was."""

    longest_ms: float = 0.0
    what: str = ""

    def begin(self) -> None:
        self.longest_ms, self.what = 0.0, ""

    def note(self, took_ms: float, what: object) -> None:
        if took_ms > self.longest_ms:
            self.longest_ms, self.what = took_ms, repr(what)


@contextmanager
def held_loop() -> Iterator[Held]:
    """Measure every callback inside. Not for uvloop, whose callbacks are not Python's."""
    held = Held()
    run = asyncio.events.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        held.note((time.thread_time() - begun) * 1000, handle)

    asyncio.events.Handle._run = measured  # type: ignore[method-assign, assignment]
    try:
        yield held
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]
