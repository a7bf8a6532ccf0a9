"""Waiting for what other programs do without telling us: asked again until true, and bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    ask: Callable[[], T], what: str, limit_s: float = 60.0, *, seen: Callable[[], object] | None = None
) -> T:
    """The first true answer. Fails with `what` and the last answer, or what is `seen` then, if none comes."""
    deadline = time.monotonic() + limit_s
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            last = answer if seen is None else seen()
            raise AssertionError(f"after {limit_s} s still not so: {what} (last answer {last!r})")
        time.sleep(0.05)
