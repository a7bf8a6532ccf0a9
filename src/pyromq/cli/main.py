"""`pyromq`: the one command. Each subcommand's module is imported when it is called, so that the start stays quick.

Logging is set up here, once, for all of them; an error that we raise on purpose becomes one line and exit code 2.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, cast

import click

from .. import __version__
from ..errors import PyroError

# name: (module below this package, attribute, short help shown without importing the module)
COMMANDS = {
    "namesrv": ("namesrv", "namesrv", "Run a name server."),
    "config": ("config", "config", "Check configuration files."),
    "demo": ("demo", "demo", "Show on this machine what works today, and clean up."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        return cast(click.Command, getattr(import_module(f".{module}", __package__), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pyromq", message="%(prog)s %(version)s")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def cli(log_level: str, log_format: Any) -> None:
    """PyroMQ: Apache RocketMQ's system in Python."""
    from .. import logs  # not at the top: --version and --help need no logging

    logs.configure(log_level, log_format)


def main() -> None:
    """The console script."""
    try:
        cli(standalone_mode=True)
    except PyroError as error:
        click.echo(f"pyromq: {error}", err=True)
        sys.exit(2)
