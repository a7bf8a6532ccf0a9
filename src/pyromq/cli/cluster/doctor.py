"""`pyromq doctor`: a set-up checked from where this command runs, which is where clients run. Reads only.

The checks are in `admin/checkup`, which the dashboard asks too; here they are printed.
"""

from __future__ import annotations

from collections import Counter

import click

from ...text import colour
from ...text.colour import Painted
from ...text.screen import wrapped
from ..terminal.called import as_called
from ..terminal.printing import columns, print_lines
from ..terminal.shell import Shell, talks
from ..terminal.tree import command


@command("pyromq doctor", "pyromq doctor -n 10.0.0.1:9876 --topic orders --group billing", "pyromq doctor --json")
@click.option("--topic", "topic", metavar="NAME", help="Look at this topic alone.  [default: all]")
@click.option("-g", "--group", metavar="NAME", help="Look at this group alone.  [default: all]")
@click.option(
    "--endpoints", "endpoints", multiple=True, metavar="HOST:PORT", help="Check this gRPC endpoint too: of a proxy."
)
@talks
async def doctor(shell: Shell, topic: str | None, group: str | None, endpoints: tuple[str, ...]) -> None:
    """Check servers, replicas, routes, clocks, permissions, disks and groups; say what to do for each finding.

    Exit code 0: well (warnings included), 1: something is broken, 2: no name server answers, or tells you.
    """
    from ...admin.checkup.checked import BROKEN, GOOD, WARNING, CheckedCluster
    from ...admin.checkup.checkup import examine
    from .elected_sets import add_elected_state

    findings = await examine(CheckedCluster(shell.calls, topic, group, endpoints, add_elected_state))
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
