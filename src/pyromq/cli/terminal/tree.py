"""The command tree: groups whose global options may stand anywhere, and words for a name that does not exist.

`pyromq -n A --json topic list` and `pyromq topic list -n A --json` are the same: what stands before a command's name is
handed on to it, and a command that does not know the option says so. Every group of the tree is a `Tree`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import click

from ...model.foreign_text import one_line
from ...text.similar import closest
from .called import as_called
from .options import TLS_OPTIONS
from .printing import print_prose, print_text

Resolved = tuple[str | None, click.Command | None, list[str]]  # a command's name, itself, and what stands behind it
_NEGATIVE = re.compile(r"-\d+(\.\d+)?")
_GIVEN = "pyromq.given"  # options that stood before a command's name, as words

ANYWHERE: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-n", "--namesrv"), {"metavar": "HOST:PORT", "help": "Name server; several with ; between."}),
    (("--profile",), {"metavar": "NAME", "help": "Name servers by the name of a profile (pyromq profile)."}),
    (("-b", "--broker"), {"metavar": "NAME|HOST:PORT", "help": "Only this broker."}),
    (("--json",), {"is_flag": True, "default": None, "help": "JSON instead of tables."}),
    (("--quiet",), {"is_flag": True, "default": None, "help": "Print no results: the exit code tells."}),
    (("--timeout",), {"metavar": "SECONDS", "help": "To wait for each answer."}),
    *(((spelling,), how) for spelling, how in TLS_OPTIONS),
    (("-y", "--yes"), {"is_flag": True, "default": None, "help": "Do not ask before something is changed."}),
    (("--dry-run",), {"is_flag": True, "default": None, "help": "Only show what would be changed."}),
)


class Tree(click.Group):
    """A group of commands. Its own `--help` is short; each command's has examples."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        shows_options = settings.pop("shows_options", False)
        super().__init__(*arguments, **settings)
        own = {spelling for one in self.params for spelling in one.opts}
        self.params += [_handed_on(names, how, shows_options) for names, how in ANYWHERE if own.isdisjoint(names)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command = super().get_command(ctx, name)
        return None if command is None else with_log_options(command, hidden=True)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Resolved:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command '{args[0]}'.{closest(args[0], known)}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, [*take_given(ctx), *rest]


class HelpFormatter(click.HelpFormatter):
    """Help whose examples can be typed where they stand."""

    def write_text(self, text: str) -> None:
        super().write_text(as_called(text))

    def write_dl(self, rows: Any, *layout: Any, **more: Any) -> None:
        super().write_dl([(term, as_called(text)) for term, text in rows], *layout, **more)


def show_usage(error: click.UsageError, file: Any = None) -> None:
    """Print what is wrong and how the command is used, a line for each."""
    print_prose(f"pyromq: {one_line(error.format_message())}")
    if error.ctx is not None:
        usage = " ".join(error.ctx.get_usage().split()).replace("Usage: ", "usage: ")
        print_prose(f"{usage} (more: --help)")


class TakesNegatives(click.Command):
    """A command whose last argument may be a negative number; any other word with a dash is still an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        negatives = [] if "--" in args else [word for word in args if _NEGATIVE.fullmatch(word)]
        if negatives:  # they stand last, behind the mark that ends the options
            args = [word for word in args if word not in negatives] + ["--", *negatives]
        return super().parse_args(ctx, args)


def take_given(ctx: click.Context) -> list[str]:
    """Return the options that stood before a command's name, for that command."""
    given: list[str] = ctx.meta.pop(_GIVEN, [])
    if ctx.params.get("namesrv"):  # a group with a use of its own for -n, that is not meant now
        given += ["-n", ctx.params["namesrv"]]
    return given


def refuse_given(ctx: click.Context) -> None:
    """Raise UsageError for options that stood before the name of a command which is none."""
    if given := ctx.meta.pop(_GIVEN, []):
        raise click.UsageError(f"{given[0]} is nothing that {ctx.info_name} knows", ctx)


def _handed_on(names: tuple[str, ...], how: dict[str, Any], is_shown: bool) -> click.Option:
    def keep(ctx: click.Context, option: click.Parameter, value: object) -> None:
        if value is not None:
            yes, _, no = names[-1].partition("/")
            words = [yes if value else no] if isinstance(value, bool) else [yes, str(value)]
            ctx.meta.setdefault(_GIVEN, []).extend(words)

    return click.Option(names, **how, expose_value=False, callback=keep, hidden=not is_shown)


def log_options(*, hidden: bool = False) -> list[click.Parameter]:
    """Return options that are accepted before and after the subcommand's name; the later one wins."""
    levels = click.Choice(["debug", "info", "warning", "error"]), "Least level that is logged.  [default: info]"
    formats = click.Choice(["text", "json"]), "One line per event, or one JSON object per line.  [default: text]"
    how: dict[str, Any] = {"expose_value": False, "callback": _set_up_logging, "hidden": hidden}
    return [
        click.Option([name], type=kind, help=text, **how)
        for name, (kind, text) in {"--log-level": levels, "--log-format": formats}.items()
    ]


def with_log_options(command: click.Command, *, hidden: bool = False) -> click.Command:
    if not any(one.name == "log_level" for one in command.params):
        command.params.extend(log_options(hidden=hidden))
    return command


def _set_up_logging(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    chosen: dict[str, str] = ctx.find_root().meta.setdefault("pyromq.logging", {})
    if value is not None and option.name is not None:
        chosen[option.name] = value
    if isinstance(ctx.command, click.Group) and not ctx.command.invoke_without_command:
        return  # the command below it does it
    from ... import logs  # not at the top: --version and --help need no logging

    logs.configure(chosen.get("log_level", "info"), cast(logs.LogFormat, chosen.get("log_format", "text")))


class Fail(click.ClickException):
    """Ends a command with one line, and lines of `details` behind it. 1: the answer is no."""

    def __init__(self, text: str, exit_code: int = 1, *, details: str = "") -> None:
        super().__init__(text)
        self._details = details
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it off the instance

    def show(self, file: Any = None) -> None:
        print_prose(f"pyromq: {self.message}")
        if self._details:
            print_text(self._details, err=True)


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> Fail:
    """Return the failure for a name that does not exist, with similar names."""
    return Fail(f"there is no {what} {name!r}.{closest(name, known)}{f' {hint}' if hint else ''}")


def command(
    *lines: str, of: click.Group | None = None, name: str | None = None, cls: type[click.Command] = click.Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return the decorator of a command: with examples below its help, and one of the group's where one is named."""
    return (of or click).command(name, cls=cls, epilog=examples(*lines))


def examples(*lines: str) -> str:
    """Return an epilog that click leaves as it is."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
