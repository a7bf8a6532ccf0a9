"""`pyromq doctor`: a set-up checked from where this command runs, which is where clients run. Reads only.

Each check is a function of its own in a module *_checks.py beside this one; here they are put in a row and
printed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from ...text import colour
from ...text.colour import Painted
from ...text.screen import wrapped
from ..terminal.called import as_called
from ..terminal.printing import columns, print_lines
from ..terminal.shell import Shell, talks
from ..terminal.tree import command

if TYPE_CHECKING:
    from .checked import CheckedCluster, CheckResult


@command("pyromq doctor", "pyromq doctor -n 10.0.0.1:9876 --topic orders --group billing", "pyromq doctor --json")
@click.option("--topic", "topic", metavar="NAME", help="Look at this topic alone.  [default: all]")
@click.option("-g", "--group", metavar="NAME", help="Look at this group alone.  [default: all]")
@click.option(
    "--endpoints", "endpoints", multiple=True, metavar="HOST:PORT", help="Check this gRPC endpoint too: of a proxy."
)
@talks
async def doctor(shell: Shell, topic: str | None, group: str | None, endpoints: tuple[str, ...]) -> None:
    """Check servers, replicas, routes, clocks, permissions, disks and groups; say what to do for each finding.

    Exit code 0: well (warnings included), 1: something is broken, 2: no name server answers.
    """
    from .checked import BROKEN, GOOD, WARNING, CheckedCluster

    findings = await examine(CheckedCluster(shell.calls, topic, group, endpoints))
    if shell.as_json:
        shell.rows([{name: as_called(text) for name, text in one.as_row().items()} for one in findings])
    else:
        marks = {GOOD: ("ok  ", colour.GOOD), WARNING: ("WARN", colour.WARN), BROKEN: ("FAIL", colour.BAD)}
        for one in findings:
            mark, (first, *more) = marks[one.state], wrapped(f"      {one.check}: {one.text}", columns(), " " * 6)
            print_lines(Painted(mark, (first[4:], "")), *more)
            if one.cure:
                print_lines(*wrapped(as_called(f"      -> {one.cure}"), columns(), " " * 9))
            if one.command:  # never broken: it is copied
                print_lines(Painted((as_called(f"         {one.command}"), colour.STRONG)))
        count = Counter(one.state for one in findings)
        print_lines(f"{count[GOOD]} checks are well, {count[WARNING]} warnings, {count[BROKEN]} failures")
    if any(one.ends_it for one in findings):
        raise click.exceptions.Exit(2)
    if any(one.state == BROKEN for one in findings):
        raise click.exceptions.Exit(1)


async def examine(checked: CheckedCluster) -> list[CheckResult]:
    """Run the checks in order, up to one after which nothing further can be checked."""
    from .endpoint_checks import endpoints
    from .mode_checks import request_modes
    from .order_checks import fifo_groups, order_configs
    from .replica_checks import replicas
    from .server_checks import brokers, clocks, disks, loopback, name_servers, permissions, readiness
    from .topic_checks import consumers, routes, transactions

    found: list[CheckResult] = []
    servers = (name_servers, brokers, loopback, readiness, endpoints, replicas, clocks, disks, permissions)
    for check in (*servers, routes, order_configs, transactions, consumers, request_modes, fifo_groups):
        async for one in check(checked):
            found.append(one)
            if one.ends_it:
                return found
    return found
