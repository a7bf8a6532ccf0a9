"""What the commands that are clients share: `-n`, and times as people write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def name_server(command: F) -> F:
    """`-n`; arrives as namesrv."""
    return click.option(
        "-n",
        "--namesrv",
        default=None,
        metavar="HOST:PORT",
        help="Name server; several with ; between.  [default: PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876]",
    )(command)


def time_ms(text: str, option: str) -> int:
    """Milliseconds since 1970, or a local time such as 2026-11-16 or 2026-11-16T08:30:00."""
    if text.isdigit():
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"{option} {text}: neither milliseconds nor a time like 2026-11-16T00:00:00") from None


def shown_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).isoformat(sep=" ", timespec="milliseconds")
