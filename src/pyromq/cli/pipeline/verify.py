"""`pyromq pipeline cdc-verify`: a database's tables against the sink that their changes went to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cdc.config import CDC_KEYS, CdcConfig
from ...pipelines.run.times import span_s
from ..serve.setting_options import load_settings
from ..terminal.tree import command
from .job import Job, job
from .options import COUNT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipelines.cdc_verify.views import SinkView
    from ...pipelines.report.summary import Summary

_SINKS = ("redis", "mongo", "postgres", "delta", "iceberg", "catalog")


@command(
    "pyromq pipeline cdc-verify -c cdc.toml --redis redis://cache:6379/0",
    "pyromq pipeline cdc-verify --database-url mariadb://cdc@db1:3306 --include 'shop.*' --delta /lake/shop",
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The capture's file: database, tables, and which columns are masked or left out.",
)
@click.option("--database-url", help="The source: mariadb://USER@HOST:PORT or postgresql://USER@HOST:PORT/DATABASE.")
@click.option("--include", help="Tables, as shop.orders or shop.*, with ; between them.")
@click.option("--exclude", help="Tables that are not compared.")
@click.option("--redis", default="", help="redis://HOST:PORT/DATABASE, or unix://PATH.")
@click.option("--prefix", default="", help="Before the name of each key in Redis.")
@click.option("--mongo", default="", help="mongodb://HOST:PORT.")
@click.option("--database", default="cdc", show_default=True, help="Where a document store has the collections.")
@click.option("--postgres", default="", help="postgresql://USER@HOST:PORT/DATABASE, the sink.")
@click.option("--schema", default="public", show_default=True, help="Where PostgreSQL has the tables.")
@click.option("--delta", default="", metavar="FOLDER", help="Of Delta tables.")
@click.option("--iceberg", default="", metavar="FOLDER", help="Of Iceberg tables, with a catalog of their own.")
@click.option("--catalog", default="", help="In place of a folder: an Iceberg catalog that pyiceberg knows.")
@click.option("--chunk", type=COUNT, default=10_000, show_default=True, metavar="ROWS", help="Rows of one checksum.")
@click.option(
    "--settle",
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How far the sink may be behind: what differs is looked at again after it. 0s: it is not.",
)
@click.option("--looks", type=COUNT, default=5, show_default=True, help="How often to look at what differs again.")
@click.option("--tasks", type=COUNT, default=4, show_default=True, help="Tasks that read each side at the same time.")
@click.option("--examples", type=COUNT, default=20, show_default=True, help="Rows to list that do not agree.")
@job("dry_run")
def cdc_verify(
    job: Job, config_file: Path | None, chunk: int, settle: str, looks: int, tasks: int, examples: int, **given: Any
) -> None:
    """Compare a database's tables with what a sink has of them. Exit 1 if they do not agree."""
    from ...pipelines.cdc_verify.verify import cdc_verify as run

    flags = {name: given.pop(name) for name in ("database_url", "include", "exclude")}
    config = load_settings(CdcConfig, CDC_KEYS, "cdc", flags, file=config_file).config
    config.database  # noqa: B018 - refused before Spark is started
    view, settle_s = _view(**given), 0.0 if settle in ("0", "0s") else span_s("settle", settle)
    view.check()
    agree: list[bool] = []

    def work(spark: SparkSession) -> Summary:
        done = run(
            spark, config, view, chunk_rows=chunk, tasks=tasks, settle_s=settle_s, looks=looks, examples=examples,
            dry_run=job.dry_run,
        )  # fmt: skip
        agree.append(bool(done.facts.get("agree", True)))
        return done

    job.run("cdc-verify", work)
    if not all(agree):
        click.get_current_context().exit(1)


def _view(prefix: str, database: str, schema: str, **sinks: str) -> SinkView:
    """Return the sink that was named. UsageError if it is none, or more than one."""
    from ...pipelines.cdc.delta_sink import DeltaSink
    from ...pipelines.cdc.iceberg_sink import IcebergSink
    from ...pipelines.cdc.jdbc_sink import JdbcSink
    from ...pipelines.cdc.mongo_sink import MongoSink
    from ...pipelines.cdc.redis_sink import RedisSink
    from ...pipelines.cdc_verify.jdbc_view import JdbcView
    from ...pipelines.cdc_verify.lake_views import DeltaView, IcebergView
    from ...pipelines.cdc_verify.mongo_view import MongoView
    from ...pipelines.cdc_verify.redis_view import RedisView

    named = [name for name in _SINKS if sinks[name]]
    if len(named) != 1:
        raise click.UsageError(f"write one of {', '.join(f'--{name}' for name in _SINKS)}: the sink to compare with")
    where = sinks[named[0]]
    match named[0]:
        case "redis":
            return RedisView(RedisSink(where, prefix))
        case "mongo":
            return MongoView(MongoSink(where, database))
        case "postgres":
            return JdbcView(JdbcSink(where, schema))
        case "delta":
            return DeltaView(DeltaSink(where))
        case "iceberg":
            return IcebergView(IcebergSink(where))
        case _:
            return IcebergView(IcebergSink("", where))
