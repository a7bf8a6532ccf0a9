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


@pipeline.command()
@name_server
@click.argument("folder")
@click.option("--topic", default="", help="Topics, with commas between them.")
@click.option("--topic-pattern", default="", help="Topics whose whole name this expression fits.")
@click.option("--group", default="", help="Publish the archive's offsets as those of this group.")
@click.option("--most", default=500_000, show_default=True, help="Messages of one micro-batch.")
@click.option("--every", default="", metavar="TIME", help="Go on for ever, such as '10 seconds'.  [default: once]")
@click.option("--dry-run", is_flag=True, help="Only tell what there is to do.")
@session_options
def archive(
    namesrv: str,
    folder: str,
    topic: str,
    topic_pattern: str,
    group: str,
    most: int,
    every: str,
    dry_run: bool,
    master: str,
    memory: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Keep topics as Parquet in FOLDER, with a manifest of offsets."""
    from ..pipelines.archive import archive as run

    given = {"topic": topic, "topicPattern": topic_pattern, "consumerGroup": group}
    source = {"nameServer": namesrv, "maxOffsetsPerTrigger": str(most)}
    source |= {name: value for name, value in given.items() if value}
    with spark_for("archive", master, memory, conf) as spark:
        show(run(spark, source, folder, every=every, dry_run=dry_run), as_json)


@pipeline.command()
@name_server
@click.option("--archive", "folder", default="", help="Folder of an archive to read instead of brokers.")
@click.option("--topic", default="", help="Topics to read, with commas between them.")
@click.option("--to", "target", required=True, help="Topic to write to.")
@click.option("--since", default="", help="Stored at or after this time (2026-11-15, or with a time; UTC).")
@click.option("--until", default="", help="Stored before this time.")
@click.option("--where", default="", help="Spark SQL on the columns of a read, such as \"tags = 'paid'\".")
@click.option("--rate", default=0, help="Messages a second.  [default: as fast as it goes]")
@click.option("--dry-run", is_flag=True, help="Only count.")
@session_options
def replay(
    namesrv: str,
    folder: str,
    topic: str,
    target: str,
    since: str,
    until: str,
    where: str,
    rate: int,
    dry_run: bool,
    master: str,
    memory: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Send messages of an archive or a topic to a topic again."""
    from ..pipelines.replay import replay as run

    if not folder and not topic:
        raise click.UsageError("--topic or --archive says what to read; give one of them")
    source = {"nameServer": namesrv} | ({"topic": topic} if topic else {})
    with spark_for("replay", master, memory, conf) as spark:
        done = run(
            spark,
            source,
            {"nameServer": namesrv, "topic": target},
            archive=folder,
            topic=topic,
            since=since,
            until=until,
            where=where,
            rate=rate,
            dry_run=dry_run,
        )
        show(done, as_json)


@pipeline.command()
@name_server
@click.option("--group", required=True, help="Consumer group whose dead letters are meant.")
@click.option("--where", default="", help="Spark SQL on the columns of a read and `origin`, the topic that failed.")
@click.option("--redrive", "again", is_flag=True, help="Send the selection to the topics where it failed.")
@click.option("--to", "target", default="", help="Send it to this topic instead.")
@session_options
def dlq(
    namesrv: str,
    group: str,
    where: str,
    again: bool,
    target: str,
    master: str,
    memory: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Which dead letters a group has, and a selection of them sent again."""
    from ..pipelines.dlq import redrive, report

    if target and not again:
        raise click.UsageError("--to says where --redrive sends to; give that too")
    source = {"nameServer": namesrv}
    with spark_for("dlq", master, memory, conf) as spark:
        if again:
            goal = source | ({"topic": target} if target else {})
            show(redrive(spark, source, goal, group, where), as_json)
        else:
            show(report(spark, source, group, where), as_json)
