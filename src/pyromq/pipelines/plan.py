"""`--dry-run`: what a job would read, by queue or file. Asks brokers for offsets, an archive for its manifests, a store
for its files; reads no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..spark.cluster import Cluster
from ..spark.offsets import Offsets
from ..spark.options import Use, read_options
from ..spark.planner import waiting
from ..spark.starting import starting, with_retries
from ..spark.store_scan import plan as log_parts
from .manifest import kept, manifests, total
from .summary import Summary, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_of(spark: SparkSession, source: Mapping[str, str], name: str) -> Summary:
    """Of a job over `source`, as `messages` has it."""
    if "archive" in source:
        found = manifests(spark, source["archive"])
        facts = {"messages": total(found, "messages"), "bytes": total(found, "bytes"), "batches": len(found)}
        return Summary(f"{name} (dry run)", facts, [Table("to do", kept(found))])
    if "store" in source:
        parts = [part for store in source["store"].split(",") for part in log_parts(store, 1)]
        rows = [{"store": part.store, "from": part.begin, "to": part.end} for part in parts]
        return Summary(
            f"{name} (dry run)", {"bytes": sum(row.end - row.begin for row in parts)}, [Table("to do", rows)]
        )
    told = planned(source)
    return Summary(f"{name} (dry run)", told.facts, told.tables)


def planned(given: Mapping[str, str], begin: Offsets | None = None) -> Summary:
    """From `begin` where a checkpoint has it, else where the options say, up to what there is now."""
    options = read_options(given, Use.STREAM)
    with Cluster(options) as cluster:
        _, bounds = with_retries(cluster, options)
        start = begin or starting(cluster, options, bounds, "earliest")
    latest = {queue: found.high for queue, found in bounds.items()}
    first = {**{queue: found.low for queue, found in bounds.items()}, **start}
    rows = [
        {
            "topic": queue.topic,
            "broker": queue.broker,
            "queue": queue.queue_id,
            "from": first[queue],
            "to": latest[queue],
        }
        for queue in sorted(latest)
    ]
    return Summary("plan", {"messages": waiting(first, latest)}, [Table("to do", rows)])
