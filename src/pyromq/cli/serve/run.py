"""`pyromq run MODULE:APP`: a service in this process, or in many that are kept running."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import PyroError
from ..terminal.exits import REFUSED, USAGE
from ..terminal.options import tls_options
from ..terminal.printing import print_as_it_is, print_lines, to_json
from ..terminal.tree import Fail, command

if TYPE_CHECKING:
    from ...app.app import App


@command(
    "pyromq run shop:app                          the App called app in shop.py, until Ctrl-C",
    "pyromq run shop:app --workers 4              four processes; one that dies is started again",
    "pyromq run shop:app --reload                 starts anew when a source file changes",
    "pyromq run shop:app -n 10.0.0.1:9876 --dir services",
    "pyromq run shop:app --asyncapi shop.json     writes what it receives and sends, and runs nothing",
)
@click.argument("target", metavar="MODULE:APP")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option("--reload", is_flag=True, help="Start anew when a Python file below the folder changes.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Where the module is.  [default: this folder]",
)
@click.option("-n", "--namesrv", metavar="HOST:PORT", help="Name server, for an app that names none itself.")
@click.option("--profile", metavar="NAME", help="Name servers by the name of a profile (pyromq profile).")
@tls_options
@click.option("--asyncapi", metavar="FILE", help="Write its AsyncAPI 3.0 document (- is the screen), and run nothing.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when the standard input ends: workers.")
def run(
    target: str, workers: int, reload: bool, folder: Path, asyncapi: str | None, until_eof: bool, **given: Any
) -> None:
    """Run the service MODULE:APP, a pyromq.App."""
    from ...transport import loop
    from ..terminal.profiles import take_reach

    folder = folder.resolve()
    reach = take_reach(given)
    os.environ.update(
        reach.tls.to_environment() | reach.keys.to_environment()
    )  # the app reads it, here and in the workers
    if reach.namesrv is not None:
        os.environ["PYROMQ_NAMESRV"] = reach.namesrv
    if asyncapi is not None:
        if workers != 1 or reload:
            raise click.UsageError("--asyncapi runs nothing: leave out --workers and --reload")
        _describe(target, folder, asyncapi)
    elif workers == 1 and not reload:
        loop.run(_serve(target, folder, until_eof))
    else:
        sys.exit(loop.run(_supervise(target, folder, workers, reload)))


def _load(target: str, folder: Path) -> App:
    """Import and check the app. Its own logs are shown as ours are, unless its module has set them up."""
    from ... import logs
    from ...app.loading import load_app, own_part

    try:
        app = load_app(target, folder)
        app.check()
    except PyroError:
        raise
    except Exception as fault:
        raise Fail(f"{target} cannot be imported", details=own_part(fault)) from None
    logs.show_others()
    return app


def _describe(target: str, folder: Path, file: str) -> None:
    text = to_json(_load(target, folder).asyncapi(), indent=2)
    if file == "-":
        print_as_it_is(text)
    else:
        Path(file).write_text(f"{text}\n", "utf-8")


async def _serve(target: str, folder: Path, until_eof: bool) -> None:
    from .stopping import stop_on_signals

    stop_wanted = stop_on_signals()
    if until_eof:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop_wanted.set)
    app = _load(target, folder)
    async with app:
        print_lines(f"pyromq app {target} ready, process {os.getpid()}")
        await app.wait(stop_wanted)


async def _supervise(target: str, folder: Path, workers: int, reload: bool) -> int:
    from ...ambient import SystemClock
    from ...app.supervisor import Supervisor
    from .stopping import stop_on_signals

    command = [sys.executable, "-m", "pyromq", "run", target, "--dir", str(folder), "--until-eof"]
    watched = folder if reload else None
    if not reload:  # a mistake is told once, and not by every worker
        _load(target, folder)
    supervisor = Supervisor(command, workers, clock=SystemClock(), hopeless=(USAGE, REFUSED), watched=watched)
    return await supervisor.run(stop_on_signals())
