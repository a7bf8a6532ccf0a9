"""How a daemon in the foreground learns that it is to stop. Used by every command that serves."""

from __future__ import annotations

import asyncio
import signal


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP (its terminal is closed) set, to end a daemon in order.

    Called inside the running loop. As in Java; and under `nohup` SIGHUP stays ignored.
    """
    stop_wanted = asyncio.Event()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, stop_wanted.set)
    return stop_wanted
