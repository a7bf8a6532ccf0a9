"""`pyromq demo`: shows on this machine what works today, step by step, and cleans up after itself.

Real processes and real sockets on loopback, data in a temporary folder. Each step is a coroutine that gets the `Stage`;
later work adds steps to `STEPS`. Anything unexpected ends the demo with an error, so that a green demo means something.
"""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from collections.abc import Awaitable, Callable

import click

from ...transport import loop
from .messages import messages
from .pipeline import pipeline
from .routes import lose_brokers, register_brokers, show_routes, start_name_server
from .stage import Stage, open_stage

STEPS: list[Callable[[Stage], Awaitable[None]]] = [
    start_name_server,
    register_brokers,
    show_routes,
    lose_brokers,
    messages,
    pipeline,
]


@click.command()
def demo() -> None:
    """Show on this machine what works today, and clean up."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to fail
    try:
        loop.run(run_steps())
    except asyncio.CancelledError:
        click.echo("> stopped; everything is stopped and removed", err=True)
        sys.exit(128 + signal.SIGTERM)
    click.echo("> everything is stopped and removed. Next: make test, README.md")


async def run_steps() -> None:
    if (task := asyncio.current_task()) is not None:
        # SIGINT unwinds by itself. Without this SIGTERM would leave processes and the folder behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_stage() as stage:
        for step in STEPS:
            await step(stage)
