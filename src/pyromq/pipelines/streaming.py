"""How every pipeline runs a stream: to the end of what is there, or for ever, with its checkpoint in its own folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .times import interval

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def run_stream(sink: DataStreamWriter, folder: str, every: str) -> None:
    """What is there now, or with `every` for ever; the checkpoint is below `folder`."""
    sink = sink.option("checkpointLocation", f"{folder}/checkpoint")
    (
        sink.trigger(processingTime=interval("every", every)) if every else sink.trigger(availableNow=True)
    ).start().awaitTermination()
