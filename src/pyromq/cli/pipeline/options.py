"""Options that several `pyromq pipeline` commands take, and what they mean: sources, targets, times, checkpoints.

A command is decorated with `reading` if it reads messages, and gets a source. Pairs (-o, --conf) arrive as a dict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import click

from ...spark.options import NetOptions, Use, connection_options, net_part
from ..terminal.options import together
from ..terminal.printing import print_lines
from ..terminal.profiles import chosen_reach

F = TypeVar("F", bound=Callable[..., Any])
COUNT = click.IntRange(min=1)
Options = dict[str, str]  # of the data source


def pairs_option(*names: str, **how: Any) -> Callable[[F], F]:
    """Return an option of `KEY=VALUE`, given as often as one wants; it arrives as a dict."""

    def pairs(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        if wrong := [each for each in given if "=" not in each]:
            raise click.UsageError(f"{option.opts[-1]} {wrong[0]}: write KEY=VALUE")
        return {key: value for key, _, value in (each.partition("=") for each in given)}

    return click.option(*names, multiple=True, callback=pairs, **how)


def _spelt(like: str, allowed: str) -> Callable[[click.Context, click.Parameter, str], str]:
    """Return the check of an option that Spark's Java process would refuse by a page of its own."""

    def check(context: click.Context, option: click.Parameter, value: str) -> str:
        if value and not re.fullmatch(like, value):
            raise click.UsageError(f"{option.opts[-1]} {value}: write {allowed}")
        return value

    return check


_MASTER = r"local-cluster\[.+\]|local(\[(\*|\d+)(, *\d+)?\])?|yarn|(spark|k8s)://.+"
SESSION = (
    click.option(
        "--master",
        default="",
        callback=_spelt(_MASTER, "spark://HOST:PORT, k8s://..., yarn, local or local[4]"),
        help="Spark cluster, such as spark://host:7077.  [default: this machine]",
    ),
    click.option(
        "--memory",
        default="2g",
        show_default=True,
        callback=_spelt("[1-9][0-9]*[kmgtKMGT]", "a number and k, m, g or t, such as 2g"),
        help="Of the driver.",
    ),
    pairs_option("--conf", metavar="KEY=VALUE", help="Spark setting; may be given again."),
)
SHARED = (
    *SESSION,
    click.option("--json", "as_json", is_flag=True, help="JSON instead of tables."),
    click.option("--metrics", type=click.Path(path_type=Path), help="Write rows, bytes, seconds and rates as JSON."),
    click.option("--report", type=click.Path(path_type=Path), help="Write an HTML page with plots."),
    click.option("--progress", type=click.Choice(["auto", "bar", "lines", "off"]), default="auto", show_default=True),
)
_PROFILE = "pyromq.profile"


def _name_servers(context: click.Context, option: click.Parameter, value: str | None) -> str:
    from ...client.connect.tls_choice import TlsChoice

    return chosen_reach(value, context.meta.get(_PROFILE), TlsChoice()).namesrv or "127.0.0.1:9876"


# They arrive as namesrv, never empty.
name_server = together(
    click.option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT",
        callback=_name_servers,
        help="Name servers.  [default: PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876]",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=lambda context, _, value: context.meta.__setitem__(_PROFILE, value),
        help="Name servers by the name of a profile.  [PYROMQ_PROFILE]",
    ),
)
OPTION = pairs_option(
    "-o", "--option", "options", metavar="KEY=VALUE", help="Option of the data source; may be given again."
)
READ = (
    name_server,
    click.option("--topic", default="", help="Topics, with commas between them."),
    click.option("--topic-pattern", default="", help="Topics whose whole name this expression fits."),
    click.option("--archive", default="", help="Folder of an archive to read instead of brokers."),
    click.option("--store", default="", help="Store folders to read instead of brokers, with commas between them."),
    OPTION,
)
SEVERAL = {  # options of several commands, by the field of a Job
    "since": click.option(
        "--since", default="", help="Stored then or later: 2026-11-15, 'yesterday 00:00', '2h ago' (UTC)."
    ),
    "until": click.option("--until", default="", help="Stored before this time."),
    "where": click.option("--where", default="", help="Spark SQL on the columns of a read, such as \"tags = 'paid'\"."),
    "most": click.option("--most", type=COUNT, default=500_000, show_default=True, help="Messages of one micro-batch."),
    "checkpoint": click.option(
        "--checkpoint", default="", help="Folder that remembers how far it came, for a restart."
    ),
    "every": click.option(
        "--every", default="", metavar="TIME", help="Go on until stopped, such as '10 seconds'.  [default: once]"
    ),
    "dry_run": click.option("--dry-run", is_flag=True, help="Only tell what there is to do."),
}


def reading(command: F) -> F:
    """Add the options that say what to read; they arrive as `source`, options of the data source or an archive."""

    @wraps(command)
    def call(**given: Any) -> Any:
        names = ("namesrv", "topic", "topic_pattern", "archive", "store", "options")
        return command(source=source_of(**{name: given.pop(name) for name in names}), **given)

    return together(*READ)(call)  # type: ignore[return-value]


def source_of(
    namesrv: str, topic: str, topic_pattern: str, archive: str, store: str, options: Mapping[str, str]
) -> dict[str, str]:
    if archive and store:
        raise click.UsageError("--archive and --store: each says what to read; give one of them")
    where = {"archive": archive} if archive else {"store": store} if store else {"nameServer": namesrv}
    if "nameServer" in where and not topic and not topic_pattern:
        raise click.UsageError("--topic, --topic-pattern, --archive or --store says what to read; give one of them")
    which = {"topic": topic, "topicPattern": topic_pattern}
    return where | {name: value for name, value in which.items() if value} | dict(options)


def target_of(namesrv: str, topic: str) -> dict[str, str]:
    """Return where the running command writes, with the connection options of its read (-o)."""
    options = click.get_current_context().params["options"]
    return {"nameServer": namesrv, "topic": topic} | net_part(options)


def reach_of(options: Mapping[str, str]) -> NetOptions:
    """Return how a job reaches the cluster that it reads or writes, for what is asked without Spark."""
    return connection_options(net_part(options), Use.BATCH)


def checkpoint_of(name: str, folder: str) -> str:
    """Return the folder, or a temporary one with a warning: a restart begins anew then."""
    if folder:
        return folder
    print_lines(f"{name}: no --checkpoint: if it is stopped, a second run sends everything again", err=True)
    return mkdtemp(prefix="pyromq-")
