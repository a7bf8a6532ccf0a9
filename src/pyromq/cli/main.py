"""`pyromq`: the one command. Each subcommand's module is imported when it is called, so that the start stays quick.

Logging is set up here, once, for all of them; an error that we raise on purpose becomes one line and an exit code of
its own (`exits.py`), which no command uses for an answer.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, cast

import click

from .. import __version__
from ..errors import PyroError
from ..machine.garbage import uncollected
from ..model.foreign_text import one_line
from ..text.extras import install_command
from ..text.screen import screen_width, wrapped
from ..text.standard_streams import open_closed_streams
from .terminal.exits import DONE, NO, REFUSED, USAGE, exit_code
from .terminal.interrupts import end_line
from .terminal.printing import print_prose
from .terminal.tree import (
    HelpFormatter,
    Resolved,
    Tree,
    log_options,
    show_usage,
    take_given,
    with_log_options,
)

# name: (module below this package, attribute, short help shown without importing the module)
COMMANDS = {
    "up": ("serve.up", "up", "Run a name server and a broker, ready to use."),
    "dev": ("serve.up", "up", "The same as up."),
    "namesrv": ("serve.namesrv", "namesrv", "Run a name server."),
    "broker": ("serve.broker", "broker", "Run a broker; settings, figures and draining of running ones."),
    "proxy": ("serve.proxy", "proxy", "Run the endpoint of 5.x clients (gRPC) before a cluster."),
    "dashboard": ("serve.dashboard", "dashboard", "Show clusters in a browser."),
    "controller": ("serve.controller", "controller", "Run a controller, which elects masters; etcd remembers."),
    "pub": ("msg.pub", "pub", "Send messages."),
    "sub": ("msg.sub", "sub", "Show messages as they come."),
    "req": ("msg.pub", "req", "Send a request and show its reply."),
    "run": ("serve.run", "run", "Run a service: a pyromq.App, in one process or many."),
    "topic": ("topic.topic", "topic", "List, describe, make, change, delete topics; forward a backlog."),
    "group": ("group.group", "group", "Consumer groups: list, describe, lag, members, where they go on."),
    "msg": ("msg.msg", "msg", "Messages: the life of one, search, traces, send again, export, import."),
    "dlq": ("msg.dlq", "dlq", "Dead letters: list with the time left, send again, purge."),
    "cluster": ("cluster.cluster", "cluster", "Clusters and their brokers."),
    "export": ("cluster.definitions", "export", "Write topics and groups to a file."),
    "apply": ("cluster.definitions", "apply_file", "Make topics and groups as a file says."),
    "kv": ("cluster.kv", "kv", "The name servers' key-value table."),
    "inspect": ("cluster.inspect", "inspect", "Show what a running broker holds, and whether it is ready."),
    "doctor": ("cluster.doctor", "doctor", "Check a set-up from the client's side, and say what to do."),
    "top": ("cluster.top", "top", "Watch rates, topics and lags live."),
    "bench": ("bench.bench", "bench", "Measure, with the flags and columns of Apache's benchmark."),
    "config": ("config", "config", "Check configuration files, list settings."),
    "profile": ("profile", "profile", "Name servers under names of your own."),
    "store": ("store", "store", "Verify, show, dump, rebuild and back up a store."),
    "user": ("access.user", "user", "Users: who may sign requests. Make, list, rotate secrets, export, import."),
    "acl": ("access.acl", "acl", "Permissions: what users may do, and roles."),
    "quota": ("cluster.quota", "quota", "What users, groups, topics and addresses may use of brokers."),
    "audit": ("audit", "audit", "Show, search and verify the audit log of a daemon."),
    "tls": ("tls", "tls", "Make, renew and show certificates: an authority of your own."),
    "sql": ("sql", "sql", "Ask topics, store files and tables in SQL: DuckDB, or Spark."),
    "cdc": ("cdc", "cdc", "Capture the changes of a database's rows as messages."),
    "pipeline": ("pipeline.pipeline", "pipeline", "Run a Spark job over RocketMQ's data."),
    "spark": ("pipeline.pipeline", "spark", "Python with a Spark session that knows RocketMQ's data."),
    "demo": ("demo", "demo", "Show on this machine what works today, and clean up."),
    "completion": ("completion", "completion", "Print the completion script for bash, zsh or fish."),
}

# Packages that are not always installed, and the extra of pyproject.toml that has them.
EXTRAS = {
    **dict.fromkeys(("pyspark", "pyarrow", "numpy", "pandas"), "spark"),
    "duckdb": "sql",
    **dict.fromkeys(("deltalake", "pyiceberg"), "lake"),
    **dict.fromkeys(("lz4", "zstandard"), "compress"),
    **dict.fromkeys(("pytest", "pytest_asyncio"), "testing"),
    **dict.fromkeys(("pymysql", "psycopg2"), "cdc"),
    "yaml": "acl",
    "opentelemetry": "otel",
    "prometheus_client": "prometheus",
    "uvloop": "fast",
    **dict.fromkeys(("starlette", "uvicorn", "jinja2", "markupsafe"), "dashboard"),
}

click.UsageError.exit_code = USAGE  # click's own is 2, which commands use for an answer
click.UsageError.show = show_usage  # type: ignore[method-assign, assignment]  # click's own has four lines
click.Context.formatter_class = HelpFormatter


class LazyTree(Tree):
    """A tree that knows its commands by name and imports one when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        with uncollected():
            command = cast(click.Command, getattr(import_module(f".{module}", __package__), attribute))
            if ctx.resilient_parsing:  # a shell completes
                from .terminal.names import complete_names

                complete_names(command)
        return with_log_options(command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Resolved:
        """Return `broker config` and its like without importing the broker: that takes long, and they need none."""
        if args[:1] == ["broker"] and len(args) > 1 and not args[1].startswith("-"):
            from .cluster.broker_admin import COMMANDS as WITH_BROKER

            if args[1] in WITH_BROKER:
                return f"broker {args[1]}", WITH_BROKER[args[1]], [*take_given(ctx), *args[2:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _until_the_reader_has_enough():  # --help and --version print here
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _until_the_reader_has_enough():
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
        except click.ClickException as refusal:  # click prints it; there may be names from elsewhere in it
            if not isinstance(refusal, click.UsageError):
                lines = wrapped(f"Error: {one_line(refusal.format_message())}", screen_width(sys.stderr), "  ")
                text = "\n".join(lines).removeprefix("Error: ")
                refusal.format_message = lambda: text  # type: ignore[method-assign]
            raise
        except (KeyboardInterrupt, click.Abort):
            end_line()
            print_prose("pyromq: stopped")
            sys.exit(NO)
        except (PyroError, OSError) as error:
            print_prose(f"pyromq: {_as_words(error)}")
            sys.exit(exit_code(error))
        except ModuleNotFoundError as missing:
            if (extra := EXTRAS.get((missing.name or "").partition(".")[0])) is None:
                raise
            print_prose(f"pyromq: this needs {missing.name}: {install_command(extra)}")
            sys.exit(REFUSED)


@contextmanager
def _until_the_reader_has_enough() -> Iterator[None]:
    """End with DONE where `| head` closes the pipe, however much fits into one."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        with suppress(OSError):  # what is still buffered goes nowhere, so that Python's own flush at the end succeeds
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)


def _as_words(error: Exception) -> str:
    """Return what went wrong: of a file its name first, then what the system says, without its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


@click.group(
    cls=LazyTree,
    shows_options=True,
    params=log_options(),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Options may stand before or after a command's name. More: docs/cli.md",
)
@click.version_option(__version__, prog_name="pyromq", message="%(prog)s %(version)s")
def cli() -> None:
    """PyroMQ: Apache RocketMQ's system in Python."""


def main() -> None:
    open_closed_streams()
    try:
        cli(standalone_mode=True)
    except OSError as error:  # what --help and --version print cannot be written
        print_prose(f"pyromq: {_as_words(error)}")
        sys.exit(REFUSED)
    finally:
        if "duckdb" not in sys.modules:  # which would tell on stderr of all that it could not take down
            gc.freeze()  # nothing is worth collecting at the end of a process: a tenth of a short command's time


if __name__ == "__main__":  # `python -m pyromq.cli.main`, for where the package is not installed as a script
    main()
