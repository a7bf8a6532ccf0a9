"""Questions to one broker or member among several: what one does not answer is unknown, and the others are shown."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from ...client.errors import Error
from ...errors import CallFailed, Malformed, RequestRefused
from ..watch.figures import Unknown

T = TypeVar("T")


async def ask_one(name: str, answer: Awaitable[T]) -> T | Unknown:
    """Return the answer, or why there is none, with the name of who was asked."""
    try:
        return await answer
    except (Error, CallFailed, Malformed, RequestRefused) as fault:
        return Unknown(f"{name}: {fault}")
