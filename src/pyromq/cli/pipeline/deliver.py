"""`pyromq pipeline` commands for a database's changes: cdc-redis, cdc-mongo, cdc-jdbc, cdc-lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...model.wire_text import whole_number
from ...pipelines.run.times import span_s
from ...spark.options import Use
from ..terminal.options import together
from ..terminal.tree import command
from .checks import check_folder
from .job import Job, job
from .options import COUNT, Options, pairs_option, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.cdc.sinks import Sink
    from ...pipelines.report.summary import Summary

_refused_and_gone = together(
    click.option(
        "--dead", default="", metavar="TOPIC", help="Send there what is not delivered; FOLDER/refused has it anyway."
    ),
    pairs_option(
        "--sweep",
        metavar="TABLE=NUMBER",
        help="At the end delete rows whose events are older: after a new snapshot; may be given again.",
    ),
)
_shared = together(
    _refused_and_gone,
    click.option("--tasks", type=COUNT, default=4, show_default=True, help="Tasks that write at the same time."),
    click.option(
        "--wait", default="1h", show_default=True, metavar="TIME", help="How long to wait for a sink that is away."
    ),
)


@command("pyromq pipeline cdc-redis --topic-pattern 'cdc-shop-.*' --redis redis://cache:6379/0 /data/to-redis")
@click.argument("folder")
@reading
@click.option("--redis", "url", required=True, help="redis://HOST:PORT/DATABASE, or unix://PATH.")
@click.option("--prefix", default="", help="Before the name of each key.")
@click.option(
    "--remember", default="7d", show_default=True, metavar="TIME", help="How long a deleted row keeps late events away."
)
@_shared
@job("most", "every", "dry_run")
def cdc_redis(
    job: Job,
    folder: str,
    source: Options,
    url: str,
    prefix: str,
    remember: str,
    dead: str,
    sweep: Options,
    tasks: int,
    wait: str,
) -> None:
    """Keep the latest row of each key as a hash in Redis; FOLDER has the checkpoint."""
    from ...pipelines.cdc.redis_sink import RedisSink

    sink = RedisSink(url, prefix, round(span_s("remember", remember)))
    _deliver("cdc-redis", job, folder, source, sink, dead, sweep, tasks, wait)


@command(
    "pyromq pipeline cdc-mongo --topic cdc-shop-orders --mongo mongodb://store:27017 --database shop /data/to-mongo"
)
@click.argument("folder")
@reading
@click.option("--mongo", "url", required=True, help="mongodb://HOST:PORT.")
@click.option("--database", default="cdc", show_default=True, help="Where the collections are.")
@_shared
@job("most", "every", "dry_run")
def cdc_mongo(
    job: Job, folder: str, source: Options, url: str, database: str, dead: str, sweep: Options, tasks: int, wait: str
) -> None:
    """Keep the latest row of each key as a document, in a store that speaks MongoDB's protocol."""
    from ...pipelines.cdc.mongo_sink import MongoSink

    _deliver("cdc-mongo", job, folder, source, MongoSink(url, database), dead, sweep, tasks, wait)


@command(
    "pyromq pipeline cdc-jdbc --topic cdc-shop-orders --postgres postgresql://me@host/warehouse /data/to-warehouse"
)
@click.argument("folder")
@reading
@click.option("--postgres", "url", required=True, help="postgresql://USER@HOST:PORT/DATABASE.")
@click.option("--schema", default="public", show_default=True, help="Where the tables are, with their keys.")
@_shared
@job("most", "every", "dry_run")
def cdc_jdbc(
    job: Job, folder: str, source: Options, url: str, schema: str, dead: str, sweep: Options, tasks: int, wait: str
) -> None:
    """Upsert and delete rows in PostgreSQL; its tables have the names of the source's."""
    from ...pipelines.cdc.jdbc_sink import JdbcSink

    _deliver("cdc-jdbc", job, folder, source, JdbcSink(url, schema), dead, sweep, tasks, wait)


@command("pyromq pipeline cdc-lake --topic-pattern 'cdc-shop-.*' --delta /lake/shop --every 60s /data/to-lake")
@click.argument("folder")
@reading
@click.option("--delta", default="", metavar="FOLDER", help="Of Delta tables, one for each table of the source.")
@click.option("--iceberg", default="", metavar="FOLDER", help="Of Iceberg tables, with a catalog of their own.")
@click.option("--catalog", default="", help="In place of a folder: an Iceberg catalog that pyiceberg knows.")
@_refused_and_gone
@click.option(
    "--wait", default="1h", show_default=True, metavar="TIME", help="How long to wait for a storage that is at fault."
)
@job("most", "every", "dry_run")
def cdc_lake(
    job: Job, folder: str, source: Options, delta: str, iceberg: str, catalog: str, dead: str, sweep: Options, wait: str
) -> None:
    """Merge rows into Delta or Iceberg tables, whose schemas follow; one task writes."""
    from ...pipelines.cdc.delta_sink import DeltaSink
    from ...pipelines.cdc.iceberg_sink import IcebergSink

    if sum(map(bool, (delta, iceberg, catalog))) != 1:
        raise click.UsageError("write one of --delta FOLDER, --iceberg FOLDER, --catalog NAME: where the tables are")
    sink = DeltaSink(delta) if delta else IcebergSink(iceberg, catalog)
    _deliver("cdc-lake", job, folder, source, sink, dead, sweep, 1, wait)


def _deliver(
    name: str, job: Job, folder: str, source: Options, sink: Sink, dead: str, sweep: Options, tasks: int, wait: str
) -> None:
    from ...pipelines.cdc.dead_letters import target_of
    from ...pipelines.cdc.delivery import deliver

    if "nameServer" not in source:
        raise click.UsageError("--archive, --store: changes are delivered from topics of brokers; leave them out")
    if sweep and job.every:
        raise click.UsageError("--sweep is done at the end, and with --every there is none: leave one of them out")
    wait_s, below, target = span_s("wait", wait), _numbers(sweep), target_of(source, dead)
    if not job.dry_run:
        source["maxOffsetsPerTrigger"] = str(job.most)
    check_folder(folder)
    sink.check(dry_run=job.dry_run)

    def work(spark: SparkSession) -> Summary:
        how: dict[str, Any] = {"tasks": tasks, "wait_s": wait_s, "dead": dead, "sweep": below}
        return deliver(spark, source, sink, folder, name, **how, every=job.every, dry_run=job.dry_run)

    job.run(name, work, source, use=Use.STREAM, to=target or None, folder=folder, goes_on=True)


def _numbers(sweep: Options) -> dict[str, int]:
    found = {}
    for table, text in sweep.items():
        number = whole_number(text)
        if number is None:
            raise click.UsageError(f"--sweep {table}={text}: write the number that `pyromq cdc reset` has told")
        found[table] = number
    return found
