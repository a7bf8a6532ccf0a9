"""`pyromq cdc`: capture changes of a database, see how far it is, check the database, begin anew."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..ambient import SystemClock, pause, system_random
from ..cdc.config import CDC_KEYS, CdcConfig
from ..cdc.rules import matches
from ..errors import PyroError
from ..text import tables
from .serve.setting_options import config_options, load_settings
from .serve.stopping import stop_on_signals
from .terminal.interrupts import confirm
from .terminal.options import together
from .terminal.printing import columns, print_lines, print_prose, print_text, to_json
from .terminal.progress import Report, progress, until_stopped
from .terminal.tree import Tree, command

if TYPE_CHECKING:
    from ..cdc.state import StateFile, TableProgress
    from ..config import Loaded

_POLL_S = 0.2
_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
_settings = config_options(CdcConfig)


@click.group(cls=Tree)
def cdc() -> None:
    """Capture the changes of a database's rows as messages (docs/cdc.md)."""


def _load(config_file: Path | None, flags: dict[str, Any]) -> Loaded[CdcConfig]:
    return load_settings(CdcConfig, CDC_KEYS, "cdc", flags, file=config_file)


@command(
    "pyromq cdc run --database-url mariadb://cdc@127.0.0.1:3306 --include 'shop.*'",
    "pyromq cdc run -c cdc.toml",
    of=cdc,
)
@_settings
def run(config_file: Path | None, **flags: Any) -> None:
    """Read all rows, then follow the database's log, until SIGTERM, SIGINT or SIGHUP."""
    from ..transport import loop

    loop.run(_serve(_load(config_file, flags)))


async def _serve(loaded: Loaded[CdcConfig]) -> None:
    from ..cdc import server
    from ..cdc.capture import log_rows

    stopping = stop_on_signals()
    with SnapshotBar() as bar:
        await server.run(
            loaded, clock=SystemClock(), rng=system_random(), ready=_say_ready, stop_wanted=stopping,
            rows_read=bar.show if sys.stderr.isatty() else log_rows,
        )  # fmt: skip


class SnapshotBar(ExitStack):
    """A bar on the terminal while rows are read; it is gone once there are no more."""

    _report: Report | None = None

    def show(self, current: TableProgress, tables: Sequence[TableProgress]) -> None:
        if self._report is None:
            self._report = self.enter_context(progress("reading the rows", in_bytes=False))
        self._report(sum(each.rows for each in tables), sum(max(each.rows, each.about) for each in tables))
        if all(each.is_done for each in tables):
            self.close()
            self._report = None


def _say_ready(name: str) -> None:
    print_lines(f"pyromq cdc {name} ready")


@command("pyromq cdc status -c cdc.toml", "pyromq cdc status --state-dir cdc --json", of=cdc)
@together(_settings, _json)
def status(config_file: Path | None, as_json: bool, **flags: Any) -> None:
    """Show how far the capture is, by its files: snapshot, position, lag, changes of each table and of its columns."""
    from ..cdc.schema.history import SchemaHistory
    from ..cdc.state import StateFile
    from ..cdc.status import report, shown

    config = _load(config_file, flags).config
    state = StateFile(config.state_dir, config.name).load()
    found = report(state, SystemClock().now_ms(), SchemaHistory(config.state_dir).load(state.lines_noted))
    if as_json:
        print_text(to_json(found, indent=2))
    else:
        print_lines(*tables.report(shown(found), columns()))


@command("pyromq cdc check --database-url mariadb://cdc@127.0.0.1:3306", "pyromq cdc check -c cdc.toml --json", of=cdc)
@together(_settings, _json)
def check(config_file: Path | None, as_json: bool, **flags: Any) -> None:
    """Check the database: log, rights, retention, zone, keys; with what mends it. Exit code 1 if something is bad."""
    from ..cdc.databases import check as findings_of
    from ..cdc.state import StateFile

    config = _load(config_file, flags).config
    findings = list(findings_of(config, StateFile(config.state_dir, config.name).load().position))
    rows = [
        {
            "": "bad" if one.is_bad else "odd" if one.is_odd else "ok",
            "what": one.what,
            "found": one.found,
            "to do": one.mend,
        }
        for one in findings
    ]
    if as_json:
        print_lines(*(to_json({"state": row.pop(""), **row}) for row in rows))
    else:
        print_lines(*tables.lines(rows, columns()))
    if any(one.is_bad for one in findings):
        raise click.exceptions.Exit(1)


@command(
    "pyromq cdc snapshot shop.orders -c cdc.toml",
    "pyromq cdc snapshot 'shop.public.*' -c cdc.toml --wait",
    of=cdc,
)
@together(_settings, _json)
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@click.option("--wait", is_flag=True, help="Wait until all rows are sent, and show how far it is.")
def snapshot(config_file: Path | None, tables: tuple[str, ...], wait: bool, as_json: bool, **flags: Any) -> None:
    """Have the rows of tables sent again while the stream goes on. Names may have * and ?, as shop.*."""
    from ..cdc.state import StateFile

    config = _load(config_file, flags).config
    file = StateFile(config.state_dir, config.name)
    if file.load().position is None:
        raise PyroError(f"{config.name} has not begun: pyromq cdc run reads the rows of all tables first")
    file.request(tables)
    if wait:
        _wait_until_read(file, tables)
    said = "sent" if wait else "asked for: the capture reads them as soon as it runs. pyromq cdc status shows how far"
    if as_json:
        print_lines(to_json({"source": config.name, "tables": list(tables), "state": "sent" if wait else "asked"}))
    else:
        print_prose(f"{config.name}: rows of {', '.join(tables)} are {said}")


def _wait_until_read(file: StateFile, tables: tuple[str, ...]) -> None:
    then = "The capture goes on with it: pyromq cdc status shows how far it is."
    with until_stopped(f"reading {', '.join(tables)}", then, in_bytes=False) as report:
        while True:
            is_noted = not file.requested()  # then the state that is read behind it has the tables
            read = [each for each in file.load().snapshot if matches(each.table, tables)]
            if is_noted and not read:
                raise PyroError(f"no table is captured that matches {', '.join(tables)}: type pyromq cdc check")
            if is_noted:
                report(sum(each.rows for each in read), sum(max(each.rows, each.about) for each in read))
            if is_noted and all(each.is_done for each in read):
                return
            pause(_POLL_S)


@command("pyromq cdc reset -c cdc.toml --yes", of=cdc)
@together(_settings, _json)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def reset(config_file: Path | None, yes: bool, as_json: bool, **flags: Any) -> None:
    """Forget the position: the next run reads all rows again. Numbers of events go on: sinks take the new ones."""
    from ..cdc.server import only_one
    from ..cdc.state import StateFile, forget_position

    config = _load(config_file, flags).config
    with only_one(config.state_dir):
        file = StateFile(config.state_dir, config.name)
        state = file.load()
        if not yes and as_json:
            raise click.UsageError("this would forget the position: give --yes")
        if not yes:
            print_prose(f"The next run of {config.name} will read all rows again.")
            confirm("Go on?")
        state = forget_position(state)
        file.save(state)
        file.forget_request()
    if as_json:
        print_lines(to_json({"source": config.name, "next": "snapshot", "number": state.number}))
        return
    print_prose(
        f"{config.name}: the next run begins with a snapshot, whose events have the number {state.number} and higher. "
        "Rows that were deleted meanwhile stay in sinks: once it is sent and delivered, give pyromq pipeline cdc-... "
        f"--sweep TABLE={state.number}"
    )
