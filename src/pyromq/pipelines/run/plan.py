"""`--dry-run`: what a job would read, by queue or file. Asks brokers for offsets, an archive for its manifests, a store
for its files; reads no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from pyspark.sql import SparkSession

from ...spark.connect.cluster import Cluster
from ...spark.options import any_read_options
from ...spark.read.offsets import Offsets, waiting
from ...spark.read.starting import ending, starting, with_retries
from ...spark.store.store_scan import plan as log_parts
from ..lake.manifest import kept, manifests, totals
from ..report.summary import Summary, Table
from .times import Times


def plan_of(spark: SparkSession, source: Mapping[str, str], name: str, **times: Unpack[Times]) -> Summary:
    """Return the plan of a job over `source`. An archive and a store are listed whole, whatever the times."""
    if "archive" in source:
        found = manifests(spark, source["archive"])
        sums = totals(found)
        facts = {"messages": sums.rows, "bytes": sums.bytes, "batches": len(found)}
        return Summary(f"{name} (dry run)", facts, [Table("toDo", kept(found))])
    if "store" in source:
        parts = [part for store in source["store"].split(",") for part in log_parts(store, 1)]
        rows = [{"store": part.store, "from": part.begin, "to": part.end} for part in parts]
        size = sum(part.end - part.begin for part in parts)
        return Summary(f"{name} (dry run)", {"bytes": size}, [Table("toDo", rows)])
    plan = planned(source, **times)
    return Summary(f"{name} (dry run)", plan.facts, plan.tables)


def planned(given: Mapping[str, str], begin: Offsets | None = None, **times: Unpack[Times]) -> Summary:
    """Plan from `begin` where a checkpoint has it, else where time or options say, up to `until_ms` or now."""
    since_ms, until_ms = times.get("since_ms"), times.get("until_ms")
    start_at = {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    options = any_read_options({**given, **start_at} if since_ms is not None else given)
    if until_ms is not None:
        options = replace(options, ending_timestamp=until_ms)
    with Cluster(options) as cluster:
        _, bounds = with_retries(cluster, options)
        start = begin or starting(cluster, options, bounds, "earliest")
        latest = ending(cluster, options, bounds)
    first = {**{queue: found.low for queue, found in bounds.items()}, **start}
    rows = [
        {**queue.as_row(), "from": first[queue], "to": max(first[queue], until)}
        for queue, until in sorted(latest.items())
    ]
    return Summary("plan", {"messages": waiting(first, latest)}, [Table("toDo", rows)])
