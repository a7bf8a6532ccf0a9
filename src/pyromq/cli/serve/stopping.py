"""How a daemon in the foreground learns that it is to stop. Used by every command that serves."""

from __future__ import annotations

import asyncio
import signal


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set, to end a daemon in order. Called inside the running loop."""
    stop_wanted = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_wanted.set)
    return stop_wanted
