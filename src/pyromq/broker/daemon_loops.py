"""Runs a daemon's loops until a stop is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until(stop_wanted: asyncio.Event, loops: list[Coroutine[Any, Any, None]]) -> None:
    """Run the loops until a stop is wanted. Raise the fault of one that is not supervised (`supervision.py`)."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    wanted = asyncio.create_task(stop_wanted.wait())
    running = {wanted, *tasks}
    try:
        while wanted in running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in (wanted, *tasks):
            task.cancel()
        await asyncio.gather(wanted, *tasks, return_exceptions=True)
