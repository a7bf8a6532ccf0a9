"""Options that commands share, and the types of their values: durations, times, TLS, brokers. Light: always loaded.

What is no number, or beyond all measure, is a wrong use. `take_tls` turns what click gives into a choice of the SDK's;
the environment and profiles are added in `profiles.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...model.times import parse_time

if TYPE_CHECKING:
    from ...client.connect.tls_choice import TlsChoice

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return several options as one decorator, shown in this order."""

    def decorate(command: F) -> F:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate


LONGEST_S = 1e9  # 31 years: any longer time is a slip of the hand, and past what timers can count


class Number(click.FloatRange):
    """A finite number in a range. click's own takes nan for any range, and inf where it has no upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


def seconds(least: float = 0, *, or_none: bool = False) -> Number:
    """Return the type of a duration; `or_none`: the least itself is allowed too."""
    return Number(min=least, max=LONGEST_S, min_open=not or_none)


class Time(click.types.StringParamType):
    """A time as `time_ms` reads it; it arrives as milliseconds since 1970."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return time_ms(value, param.opts[-1] if param else "")


def time_ms(text: str, option: str) -> int:
    """Return milliseconds since 1970 of a time as `parse_time` reads it."""
    from ...ambient import SystemClock  # not at the top: it brings asyncio with it

    try:
        return parse_time(text, SystemClock().now_ms())
    except ValueError:
        wanted = "neither milliseconds nor a time like 2026-11-16T00:00:00, -1h or 'yesterday 00:00'"
        raise click.UsageError(f"{option} {text}: {wanted}") from None


# Spelling, how click takes it. Also what a group hands on to its commands (tree.py).
TLS_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--tls/--no-tls", {"default": None, "help": "Encrypted connections, or plain ones.  [PYROMQ_TLS]"}),
    ("--tls-ca", {"metavar": "FILE", "help": "Who signs servers' certificates.  [PYROMQ_TLS_CA; the system's]"}),
    ("--tls-cert", {"metavar": "FILE", "help": "A certificate of our own to show.  [PYROMQ_TLS_CERT]"}),
    ("--tls-key", {"metavar": "FILE", "help": "Its key.  [PYROMQ_TLS_KEY]"}),
    (
        "--tls-verify",
        {
            "type": click.Choice(("full", "ca", "none")),
            "help": "Check signer and name of a server, its signer, or nothing.  [PYROMQ_TLS_VERIFY; full]",
        },
    ),
)
_FIELDS = {"tls": "enabled", "tls_ca": "ca", "tls_cert": "certificate", "tls_key": "key", "tls_verify": "verify"}
_SPELLED = {field: "--" + name.replace("_", "-") for name, field in _FIELDS.items()}

# They arrive as tls, tls_ca ..., and `take_tls` takes them all.
tls_options = together(*(click.option(spelling, **how) for spelling, how in TLS_OPTIONS))


def take_tls(given: dict[str, Any]) -> TlsChoice:
    """Remove the TLS options from what a command was given, and return the choice."""
    from ...client.connect.tls_choice import from_words  # not at the top: --help needs no SDK

    values = {field: given.pop(name) for name, field in _FIELDS.items()}
    words = {field: str(value) for field, value in values.items() if value is not None}
    if values["enabled"] is False and len(words) > 1:
        raise click.UsageError(
            f"--no-tls leaves no use for {_SPELLED[next(name for name in words if name != 'enabled')]}"
        )
    return from_words(words, _SPELLED)


one_broker = click.option("-b", "--broker", metavar="NAME|HOST:PORT", help="Only this broker.")
one_cluster = click.option("-c", "--cluster", metavar="NAME", help="Only brokers of this cluster.")
cluster_options = together(
    click.option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT",
        help="Name server; several with ; between.  [default: PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876]",
    ),
    click.option("--profile", metavar="NAME", help="Name servers by the name of a profile.  [PYROMQ_PROFILE]"),
    click.option(
        "--timeout", type=seconds(), default=3.0, show_default=True, metavar="SECONDS", help="To wait for each answer."
    ),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of a table."),
    click.option("--quiet", is_flag=True, help="Print no results: the exit code tells."),
    tls_options,
)
