"""Batches of a stream sent from the driver's `foreachBatch`, for what `writeStream.format("rocketmq")` cannot do.

    counts.writeStream.outputMode("update").foreachBatch(send_batches(nameServer="127.0.0.1:9876", topic="counts"))

Spark refuses `outputMode("update")` for every data source written in Python, before the source is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ..options import write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY = "sql.streaming.queryId"


def send_batches(**options: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that sends each batch's rows; a repeat of the batch has the same ids.

    Options and columns are those of a write. ConfigError, here and at once, for options that are wrong.
    """
    given = write_options(options)
    if given.origin:
        raise ConfigError(
            f"origin = {given.origin!r}: rows of a stream have their ids from query and batch; leave it out"
        )

    def send(rows: DataFrame, batch: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY)
        if query is None:  # ids of no query would be those of the next call too, and its rows taken for repeats
            raise ConfigError("send_batches is for foreachBatch: to send rows that are no stream's, use write")
        rows.write.format("rocketmq").mode("append").options(**(options | {"origin": f"{query}/{batch}"})).save()

    return send
