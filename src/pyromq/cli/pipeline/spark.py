"""`pyromq spark shell`: Python with a Spark session that knows the data source `rocketmq`."""

from __future__ import annotations

import code

import click

from ..terminal.options import together
from ..terminal.tree import Tree
from .job import spark_for
from .options import SESSION, name_server

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
