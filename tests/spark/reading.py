"""Batch reads as Spark runs them, plan and tasks, in this process and without Spark: for what does not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pyspark.sql.types import StructType

from pyromq.spark.options import Use, read_options
from pyromq.spark.read.batch_read import BatchReader, QueuePart
from pyromq.spark.read.pulling import read_range
from pyromq.spark.schema import COLUMNS, arrow_schema
from tests.spark.servers import Servers

BODY = StructType().add("body", "binary")


def _given(servers: Servers, topic: str, options: dict[str, Any]) -> dict[str, str]:
    given = {"nameServer": servers.namesrv} | ({"topic": topic} if topic else {})
    return given | {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def tasks(servers: Servers, topic: str = "", **options: Any) -> list[QueuePart]:
    return BatchReader(read_options(_given(servers, topic, options), Use.BATCH), BODY).partitions()


def rows(
    servers: Servers,
    topic: str = "",
    names: Sequence[str] = tuple(COLUMNS),
    *,
    between: Callable[[], None] | None = None,
    **options: Any,
) -> list[Any]:
    """All rows; `between` happens behind the first chunk of them."""
    return read_rows(_given(servers, topic, options), names, between)


def read_rows(
    given: Mapping[str, str], names: Sequence[str] = tuple(COLUMNS), between: Callable[[], None] | None = None
) -> list[Any]:
    """The same of any cluster, by the options of a read."""
    seen: list[Any] = []
    asked = read_options(given, Use.BATCH)
    for task in BatchReader(asked, BODY).partitions():
        for batch in read_range(task.part, task.address, asked, arrow_schema(names)):
            if between is not None:
                between()
                between = None
            seen += [SimpleNamespace(**row) for row in batch.to_pylist()]
    return seen


def numbers(found: Sequence[Any]) -> list[int]:
    """Of the messages that `Servers.send` made."""
    return sorted(int(bytes(row.body).rstrip(b".")[1:]) for row in found)
