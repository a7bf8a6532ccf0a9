"""`pyromq`: the one command. Each subcommand's module is imported when it is called, so that the start stays quick.

Logging is set up here, once, for all of them; an error that we raise on purpose becomes one line and an exit code of
its own (`exits.py`), which no command uses for an answer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import cast

import click

from .. import __version__
from ..errors import CallFailed, PyroError
from .exits import NO_ANSWER, REFUSED, USAGE

# name: (module below this package, attribute, short help shown without importing the module)
COMMANDS = {
    "up": ("up", "up", "Run a name server and a broker, ready to use."),
    "namesrv": ("namesrv", "namesrv", "Run a name server."),
    "broker": ("broker", "broker", "Run a broker."),
    "pub": ("pub", "pub", "Send messages."),
    "sub": ("sub", "sub", "Show messages as they come."),
    "inspect": ("inspect", "inspect", "Show what a running broker holds, and whether it is ready."),
    "msg": ("msg", "msg", "Tell the life of a message, list dead letters."),
    "group": ("group", "group", "Let a consumer group skip messages, or go on at a time or offset."),
    "config": ("config", "config", "Check configuration files, list settings."),
    "store": ("store", "store", "Verify, show, dump, rebuild and back up a store."),
    "pipeline": ("pipeline", "pipeline", "Run a Spark job over RocketMQ's data."),
    "spark": ("spark", "spark", "Python with a Spark session that knows RocketMQ's data."),
    "demo": ("demo", "demo", "Show on this machine what works today, and clean up."),
}


click.UsageError.exit_code = USAGE  # click's own is 2, which commands use for an answer


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command = cast(click.Command, getattr(import_module(f".{module}", __package__), attribute))
        if not any(one.name == "log_level" for one in command.params):
            command.params.extend(log_options())
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


def log_options() -> list[click.Parameter]:
    """Accepted before and after the subcommand's name; the later one wins."""
    return [
        click.Option(
            ["--log-level"],
            type=click.Choice(["debug", "info", "warning", "error"]),
            help="Least level that is logged.  [default: info]",
            expose_value=False,
            callback=_set_up_logging,
        ),
        click.Option(
            ["--log-format"],
            type=click.Choice(["text", "json"]),
            help="One line per event, or one JSON object per line.  [default: text]",
            expose_value=False,
            callback=_set_up_logging,
        ),
    ]


def _set_up_logging(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    from .. import logs  # not at the top: --version and --help need no logging

    chosen: dict[str, str] = ctx.find_root().meta.setdefault("pyromq.logging", {})
    if value is not None and option.name is not None:
        chosen[option.name] = value
    logs.configure(chosen.get("log_level", "info"), cast(logs.LogFormat, chosen.get("log_format", "text")))


@click.group(cls=LazyGroup, params=log_options(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pyromq", message="%(prog)s %(version)s")
def cli() -> None:
    """PyroMQ: Apache RocketMQ's system in Python."""


def main() -> None:
    """The console script."""
    try:
        cli(standalone_mode=True)
    except (PyroError, OSError) as error:  # an OSError names its path or address itself
        click.echo(f"pyromq: {error}", err=True)
        sys.exit(NO_ANSWER if isinstance(error, CallFailed) else REFUSED)


if __name__ == "__main__":  # `python -m pyromq.cli.main`, for where the package is not installed as a script
    main()
