"""`pyromq pipeline NAME`: Spark jobs over RocketMQ's data. Starts a session, runs the job, prints its summary."""

from __future__ import annotations

import click

from ..terminal.tree import Tree
from .analyse import analytics, backlog, forensics, reconcile, search, trace
from .move import archive, dedup, dlq, replay


@click.group(cls=Tree)
def pipeline() -> None:
    """Run a Spark job over RocketMQ's data."""


for _command in (archive, replay, dlq, dedup, trace, backlog, analytics, reconcile, search, forensics):
    pipeline.add_command(_command)
