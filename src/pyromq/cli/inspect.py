"""`pyromq inspect`: what a running broker holds right now, and, by the exit code, whether it is ready to serve."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from ..errors import PyroError
from .numbers import seconds
from .tree import examples


@click.command(epilog=examples("pyromq inspect -b 127.0.0.1:10911", "pyromq inspect -q && echo ready"))
@click.option(
    "-b", "--broker", "address", default="127.0.0.1:10911", show_default=True, help="HOST:PORT of the broker."
)
@click.option(
    "--timeout",
    type=seconds(),
    default=3.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)
@click.option("--json", "as_json", is_flag=True, help="The answer as it is.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing: for supervisors, who read the exit code.")
def inspect(address: str, timeout: float, as_json: bool, quiet: bool) -> None:
    """Show what a broker holds. Exit code 0: ready, 1: not ready, 2: no answer."""
    import asyncio

    found = asyncio.run(_ask(address, timeout))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not quiet:
        _print(found)
    sys.exit(0 if found["ready"] else 1)


async def _ask(address: str, timeout_s: float) -> dict[str, Any]:
    from ..ambient import SystemClock, system_random
    from ..model.codes import OwnRequestCode
    from ..protocol.command import Command
    from ..transport.client import Client

    async with Client(clock=SystemClock(), rng=system_random()) as client:
        answer = await client.call(address, Command(code=OwnRequestCode.INSPECT), timeout_s)
    if not answer.body:
        cure = "Only ours tell this; of Apache's: pyromq broker stats, pyromq doctor"
        raise PyroError(f"{address} is no PyroMQ broker, or an older one: {(answer.remark or '').strip()}. {cure}")
    found: dict[str, Any] = json.loads(bytes(answer.body))
    return found


def _print(found: dict[str, Any]) -> None:
    click.echo("ready" if found["ready"] else "NOT READY: " + "; ".join(found["troubles"]))
    for name, value in found.items():
        if name in ("ready", "troubles"):
            continue
        if not isinstance(value, list | dict):
            click.echo(f"{name:16} {value}")
            continue
        click.echo(f"{name:16} {len(value)}" if isinstance(value, list) else f"{name:16}")
        lines = value if isinstance(value, list) else [f"{key}: {one}" for key, one in value.items()]
        for line in lines:
            click.echo(f"    {line}")
