"""How every pipeline runs a stream: to the end of what is there, or for ever, with its checkpoint in its own folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .times import interval

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def run_stream(sink: DataStreamWriter, folder: str, every: str) -> None:
    """What is there now, or with `every` until it is stopped (Ctrl-C, or `stop` of the query); the checkpoint is below
    `folder`. Ctrl-C is an end like any other: what was done is told, and the next start goes on from there."""
    sink = sink.option("checkpointLocation", f"{folder}/checkpoint")
    query = (
        sink.trigger(processingTime=interval("every", every)) if every else sink.trigger(availableNow=True)
    ).start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
        if not every:  # it was to come to its end, and has not
            raise
