"""`pyromq inspect`: what a running broker holds right now, and, by the exit code, whether it is ready to serve."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import click

from ... import admin
from ...client.errors import Refused
from ...errors import PyroError
from ...text.colour import BAD, DIM, GOOD, WARN, Painted
from ...text.screen import wrapped
from ..terminal.options import seconds, tls_options
from ..terminal.printing import columns, print_lines, print_text
from ..terminal.profiles import take_reach
from ..terminal.shell import Shell, ask
from ..terminal.tree import command

WORRIES = ("conflicts", "mistyped", "quarantined", "loopFaults", "lostForWantOfSpace")  # there should be none
HERE = "127.0.0.1:10911"


@command(
    "pyromq inspect                          the broker of PYROMQ_NAMESRV, else 127.0.0.1:10911",
    "pyromq inspect -b 10.0.0.2:10911 --json",
    "pyromq inspect -b broker-a              by its name: the name servers tell its address",
    "pyromq inspect -b 127.0.0.1:10911 -q && echo ready",
)
@click.option(
    "-b",
    "--broker",
    metavar="NAME|HOST:PORT",
    help=f"Which one.  [default: the one that the name servers know; {HERE} if none are named]",
)
@click.option(
    "-n",
    "--namesrv",
    metavar="HOST:PORT",
    help="Name server that knows it; several with ; between.  [default: PYROMQ_NAMESRV, NAMESRV_ADDR]",
)
@click.option("--profile", metavar="NAME", help="Name servers by the name of a profile.")
@tls_options
@click.option("--timeout", type=seconds(), default=3.0, show_default=True, help="Seconds to wait for the answer.")
@click.option("--json", "as_json", is_flag=True, help="The answer as it is.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing: for supervisors, who read the exit code.")
def inspect(broker: str | None, timeout: float, as_json: bool, quiet: bool, **given: Any) -> None:
    """Show what a broker holds. Exit code 0: ready, 1: not ready, 2: no answer.

    An address is asked directly, so that a probe depends on nothing else. A name, or no -b, goes by way of the name
    servers, if any are named by -n, a profile or the environment.
    """
    reach = take_reach(given)
    if broker is None and reach.namesrv is None:
        broker = HERE
    if broker is not None and ":" in broker:
        reach = replace(reach, namesrv=broker)  # no name server is asked, nor even its name looked up
    found = ask(_inspect, reach, timeout, {"broker": broker})
    if as_json:
        print_text(json.dumps(found, indent=2))
    elif not quiet:
        _print(found)
    sys.exit(0 if found["ready"] else 1)


async def _inspect(shell: Shell, broker: str | None) -> dict[str, Any]:
    places = await shell.masters(broker)
    if len(places) > 1:
        known = ", ".join(place.name for place in places)
        raise click.UsageError(f"there are several brokers, {known}: say which with -b")
    address = places[0].address
    try:
        return await admin.cluster.inspect(shell.calls, address)
    except Refused as fault:
        cure = "Only ours tell this; of Apache's: pyromq broker stats, pyromq doctor"
        raise PyroError(f"{address} is no PyroMQ broker, or an older one: {fault.remark.strip()}. {cure}") from None


def _print(found: dict[str, Any]) -> None:
    troubles = found.get("troubles") or ["it does not say why"]
    is_ready = bool(found.get("ready"))
    print_lines(Painted(("ready", GOOD) if is_ready else ("NOT READY: " + "; ".join(map(str, troubles)), BAD)))
    for name, value in found.items():
        if name in ("ready", "troubles"):
            continue
        if isinstance(value, list):
            print_lines(Painted((f"{name:16} ", DIM), (str(len(value)), WARN if value and name in WORRIES else "")))
            print_lines(*(part for one in value for part in wrapped(f"    {one}", columns(), " " * 6)))
        elif isinstance(value, dict):
            print_lines(Painted((f"{name:16}", DIM)))
            print_lines(*(part for key in value for part in wrapped(f"    {key}: {value[key]}", columns(), " " * 6)))
        else:
            print_lines(Painted((f"{name:16} ", DIM), (str(value), WARN if value and name in WORRIES else "")))
