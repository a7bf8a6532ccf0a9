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
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import click

from ...transport import loop
from ..terminal.called import as_called
from ..terminal.printing import print_lines
from ..terminal.tree import Tree, command, refuse_given
from .cdc import KILLS, SINKS, show_capture
from .inspection import inspection
from .kinds import kinds
from .pipeline import pipeline
from .run import DemoRun, open_run, start

Step = Callable[[DemoRun], Awaitable[None]]
STEPS: list[Step] = [start, kinds, inspection, pipeline]


@click.group(cls=Tree, invoke_without_command=True)
@click.pass_context
def demo(context: click.Context) -> None:
    """Show on this machine what works today, and clean up."""
    if context.invoked_subcommand is None:
        refuse_given(context)
        _show(run_steps(STEPS), "pyromq up; docs/howto.md says more")


@command("pyromq demo cdc", "pyromq demo cdc --database postgresql --kill broker --kill spark", of=demo)
@click.option(
    "--database", type=click.Choice(["mariadb", "postgresql"]), default=None, help="[default: what is installed]"
)
@click.option(
    "--kill", "kills", type=click.Choice(KILLS), multiple=True, help="Only these; may be given again.  [default: all]"
)
@click.option(
    "--sink",
    "sinks",
    type=click.Choice(list(SINKS)),
    multiple=True,
    help="Only this; may be given again.  [default: both]",
)
def cdc(database: str | None, kills: tuple[str, ...], sinks: tuple[str, ...]) -> None:
    """Bring a database's changes to Redis and a Delta table while everything is killed in turn, and compare."""

    async def with_kills(run: DemoRun) -> None:
        await show_capture(run, database or "", kills or KILLS, sinks or tuple(SINKS))

    _show(run_steps([with_kills]), "pyromq cdc check; docs/cdc.md says more")


def _show(steps: Coroutine[Any, Any, None], next_step: str) -> None:
    """Run the steps; what they started is stopped when this returns, and when it is stopped itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to fail
    logging.getLogger("pyromq").setLevel(logging.ERROR)  # that clients miss a broker that was killed is no news here
    try:
        loop.run(steps)
    except asyncio.CancelledError:
        print_lines("> stopped; everything is stopped and removed", err=True)
        sys.exit(128 + signal.SIGTERM)
    print_lines(as_called(f"> everything is stopped and removed. Next: {next_step}"))


async def run_steps(steps: Sequence[Step]) -> None:
    if (task := asyncio.current_task()) is not None:
        # SIGINT unwinds by itself. Without this SIGTERM would leave processes and the folder behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_run() as demo_run:
        for step in steps:
            await step(demo_run)
