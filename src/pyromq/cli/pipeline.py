"""`pyromq pipeline NAME`: Spark jobs over RocketMQ's data. Starts a session, runs the job, prints its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..spark.session import check_machine, new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..pipelines.summary import Summary

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def pipeline() -> None:
    """Run a Spark job over RocketMQ's data."""


def session_options(command: F) -> F:
    """What every pipeline takes."""
    for decorate in (
        click.option("--master", default="", help="Spark cluster, such as spark://host:7077.  [default: this machine]"),
        click.option("--memory", default="2g", show_default=True, help="Of the driver."),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting; may be given again."),
        click.option("--json", "as_json", is_flag=True, help="JSON instead of tables."),
    ):
        command = decorate(command)
    return command


def name_server(command: F) -> F:
    decorate = click.option(
        "-n", "--namesrv", default="127.0.0.1:9876", show_default=True, envvar="PYROMQ_NAMESRV", help="Name servers."
    )
    return decorate(command)


@contextmanager
def spark_for(name: str, master: str, memory: str, conf: tuple[str, ...]) -> Iterator[SparkSession]:
    """Progress goes to stderr: a first answer takes Spark about ten seconds."""
    check_machine()
    wrong = [each for each in conf if "=" not in each]
    if wrong:
        raise click.UsageError(f"--conf {wrong[0]}: write KEY=VALUE")
    click.echo(f"{name}: starting Spark on {master or 'this machine'}", err=True)
    session = new_session(name, master=master, memory=memory, settings=dict(each.partition("=")[::2] for each in conf))
    click.echo(f"{name}: running", err=True)
    try:
        yield session
    finally:
        session.stop()


def show(summary: Summary, as_json: bool) -> None:
    click.echo(summary.as_json() if as_json else summary.as_text(get_terminal_size((120, 40)).columns), nl=as_json)


@pipeline.command()
@name_server
@click.option("--topic", required=True, help="Topics, with commas between them.")
@click.option("--group", "groups", multiple=True, help="Also show this group's lag; may be given again.")
@session_options
def backlog(
    namesrv: str, topic: str, groups: tuple[str, ...], master: str, memory: str, conf: tuple[str, ...], as_json: bool
) -> None:
    """How much waits where: by queue, tag and group."""
    from ..pipelines.backlog import backlog as run

    with spark_for("backlog", master, memory, conf) as spark:
        show(run(spark, {"nameServer": namesrv, "topic": topic}, groups), as_json)
