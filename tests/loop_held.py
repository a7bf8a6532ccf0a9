"""How long single callbacks hold the event loop, in CPU time of its thread: what other programs do does not count.

Every callback of asyncio's own loop passes here, whatever it serves: received bytes, handlers, answers, timers, tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.cpu_time import slowness, without_collections


@dataclass(slots=True)
class Held:
    """The longest callback since `begin`: how long it ran, what it was, and how long all of them ran."""

    slowness: float
    longest_ms: float = 0.0
    what: str = ""
    total_ms: float = 0.0

    def begin(self) -> None:
        self.longest_ms, self.what, self.total_ms = 0.0, "", 0.0

    def note(self, took_ms: float, what: object) -> None:
        self.total_ms += took_ms / self.slowness
        if took_ms / self.slowness > self.longest_ms:
            self.longest_ms, self.what = took_ms / self.slowness, repr(what)

    @property
    def share(self) -> float:
        """Return the part of all the time that went into the longest callback; it is small where work is in slices."""
        return self.longest_ms / self.total_ms


@contextmanager
def held_loop() -> Iterator[Held]:
    """Measure every callback inside. Not for uvloop, whose callbacks are not Python's."""
    run = asyncio.events.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        held.note((time.thread_time() - begun) * 1000, handle)

    with without_collections():
        held = Held(slowness())
        asyncio.events.Handle._run = measured  # type: ignore[method-assign, assignment]
        try:
            yield held
        finally:
            asyncio.events.Handle._run = run  # type: ignore[method-assign]
