"""`pyromq pipeline NAME`: Spark jobs over RocketMQ's data; and `pyromq spark shell`: Python with a session for it."""

from __future__ import annotations

import code

import click

from ..terminal.options import together
from ..terminal.tree import Tree
from .analyse import analytics, backlog, forensics, reconcile, search, trace
from .deliver import cdc_jdbc, cdc_lake, cdc_mongo, cdc_redis
from .job import spark_for
from .move import archive, dedup, dlq, replay
from .options import SESSION, name_server
from .verify import cdc_verify


@click.group(cls=Tree)
def pipeline() -> None:
    """Run a Spark job over RocketMQ's data."""


_READ = (trace, backlog, analytics, reconcile, search, forensics)
for _command in (archive, replay, dlq, dedup, *_READ, cdc_redis, cdc_mongo, cdc_jdbc, cdc_lake, cdc_verify):
    pipeline.add_command(_command)


GUIDE = """\
`spark` is a Spark {version} session. To begin:
  df = spark.read.format("rocketmq").option("nameServer", "{namesrv}").option("topic", "TOPIC").load()
  df.groupBy("queueId").count().show()
Ctrl-D ends it."""


@click.group(cls=Tree)
def spark() -> None:
    """Spark with the data source `rocketmq`."""


@spark.command()
@name_server
@together(*SESSION)
def shell(namesrv: str, master: str, memory: str, conf: dict[str, str]) -> None:
    """An interactive Python with `spark` in it."""
    with spark_for("shell", master, memory, conf) as session:
        banner = GUIDE.format(version=session.version, namesrv=namesrv)
        code.interact(banner, local={"spark": session, "namesrv": namesrv}, exitmsg="")
