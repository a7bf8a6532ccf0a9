"""A process that has no descriptor left, and waiting for what another thread or process does."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOKS = 6000


async def seen(condition: Callable[[], bool]) -> bool:
    """True as soon as it holds; False if it does not within a minute."""
    for _ in range(_LOOKS):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


@contextmanager
def taken_descriptors() -> Iterator[list[int]]:
    """All of them, as far as this process may have any."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    null = os.open(os.devnull, os.O_RDONLY)
    taken = [null]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, null + 100), hard))
    try:
        while True:
            try:
                taken.append(os.dup(null))
            except OSError:
                break
        yield taken
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)


@contextmanager
def shortage(after: int) -> Iterator[None]:
    """So many more descriptors may be opened."""
    with taken_descriptors() as taken:
        for _ in range(after):
            os.close(taken.pop())
        yield
