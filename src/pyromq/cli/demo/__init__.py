"""`pyromq demo`: shows on this machine what works today, step by step, and cleans up after itself.

Real processes and real sockets on loopback, data in a temporary folder. Each step is a coroutine that gets a `DemoRun`.
Every step checks what it shows, and anything unexpected ends the demo with an error: a green demo means something.
"""

from __future__ import annotations

import asyncio
import io
import logging
import signal
import sys
from collections.abc import Awaitable, Callable

import click

from ...transport import loop
from ..terminal.called import as_called
from ..terminal.printing import print_lines
from .inspection import inspection
from .kinds import kinds
from .pipeline import pipeline
from .run import DemoRun, open_run, start

STEPS: list[Callable[[DemoRun], Awaitable[None]]] = [start, kinds, inspection, pipeline]


@click.command()
def demo() -> None:
    """Show on this machine what works today, and clean up."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to fail
    logging.getLogger("pyromq").setLevel(logging.ERROR)  # that clients miss a broker that was killed is no news here
    try:
        loop.run(run_steps())
    except asyncio.CancelledError:
        print_lines("> stopped; everything is stopped and removed", err=True)
        sys.exit(128 + signal.SIGTERM)
    print_lines(as_called("> everything is stopped and removed. Next: pyromq up; docs/howto.md says more"))


async def run_steps() -> None:
    if (task := asyncio.current_task()) is not None:
        # SIGINT unwinds by itself. Without this SIGTERM would leave processes and the folder behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_run() as demo_run:
        for step in STEPS:
            await step(demo_run)
