"""CPU time that tests may set limits on: of this thread alone, without collections, at the pace of this machine.

A limit in milliseconds was written down on one machine. Elsewhere, or beside busy neighbours that share a core, the
same work takes two or three times as long, so what was measured is divided by how much longer a known piece of work
takes just then. A collection of everything that other tests left behind would count for whoever is being measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REFERENCE_MS = 3.3  # of `_reference` on the machine where the limits were written, when it was quiet


@contextmanager
def without_collections() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def slowness() -> float:
    """Return how many times longer than on the machine of the limits work takes now; never less than 1."""
    return max(1.0, min(_taken_ms(_reference) for _ in range(3)) / _REFERENCE_MS)


def cpu_s(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes, the best of three, at the pace of the machine of the limits."""
    with without_collections():
        before = slowness()
        taken_ms = min(_taken_ms(work) for _ in range(3))
        return taken_ms / 1000 / max(before, slowness())


def _taken_ms(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return (time.thread_time() - begun) * 1000


def _reference() -> None:
    table = {}
    for number in range(20_000):
        table[str(number)] = number * number
