"""`--dry-run`: what a job would read, by queue or file. Asks brokers for offsets, an archive for its manifests, a store
for its files; reads no message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Unpack

from pyspark.sql import SparkSession

from ...spark.connect.cluster import Cluster
from ...spark.options import ReadOptions, any_read_options, batch_part
from ...spark.read.made_anew import to_read
from ...spark.read.offsets import Bounds, OffsetRange, Offsets, Queue, from_json, limited, ranges, to_json
from ...spark.read.starting import ending, starting, with_retries
from ...spark.store.store_scan import plan as log_parts
from ..lake.manifest import kept, manifests, totals
from ..report.summary import Summary, Table
from .checkpoint import Standing
from .times import Times


def plan_of(
    spark: SparkSession, source: Mapping[str, str], name: str, at: Standing | None = None, **times: Unpack[Times]
) -> Summary:
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
    plan = planned(source, at, **times)
    return Summary(f"{name} (dry run)", plan.facts, plan.tables)


def planned(given: Mapping[str, str], at: Standing | None = None, **times: Unpack[Times]) -> Summary:
    """Plan from where a checkpoint stands, else where time or options say, up to `until_ms` or now.

    DataLoss as in the stream, if messages after the checkpoint are gone.
    """
    left = _left(given, at, **times)
    rows = [{**queue.as_row(), "from": begin, "to": end} for queue, (begin, end) in sorted(left.items())]
    return Summary("plan", {"messages": sum(end - begin for begin, end in left.values())}, [Table("toDo", rows)])


def rest_of(given: Mapping[str, str], at: Standing | None, **times: Unpack[Times]) -> dict[str, str]:
    """Return the options of a batch read of what a stream has left after its checkpoint. DataLoss as in the stream."""
    batch = batch_part(given)
    if at is None:
        return batch
    left = _left(given, at, **times)
    begin = {queue: found.low for queue, found in left.items()}
    end = {queue: found.high for queue, found in left.items()}
    kept = {name: value for name, value in batch.items() if not name.lower().startswith("starting")}
    return kept | {"startingOffsets": json.dumps(to_json(begin)), "endingOffsets": json.dumps(to_json(end))}


def _left(given: Mapping[str, str], at: Standing | None, **times: Unpack[Times]) -> dict[Queue, Bounds]:
    """Return what is to be read of each queue."""
    since_ms, until_ms = times.get("since_ms"), times.get("until_ms")
    start_at = {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    options = any_read_options({**given, **start_at} if since_ms is not None else given)
    if until_ms is not None:
        options = replace(options, ending_timestamp=until_ms)
    with Cluster(options) as cluster:
        _, bounds = with_retries(cluster, options)
        latest = ending(cluster, options, bounds)
        first = from_json(at.start) if at else {}
        first = first or starting(cluster, options, bounds, "earliest")
        if at is not None:
            first = _begins(_batches(cluster, options, first, at, bounds), bounds)
    first = {queue: found.low for queue, found in bounds.items()} | first
    return {queue: Bounds(first[queue], max(first[queue], until)) for queue, until in latest.items()}


def _begins(parts: Iterable[OffsetRange], bounds: Mapping[Queue, Bounds]) -> Offsets:
    """Return where the parts begin in each queue; its end if none does."""
    found = {queue: each.high for queue, each in bounds.items()}
    for part in parts:
        found[part.queue] = min(part.begin, found.get(part.queue, part.begin))
    return found


def _batches(
    cluster: Cluster, options: ReadOptions, start: Offsets, at: Standing, bounds: Mapping[Queue, Bounds]
) -> list[OffsetRange]:
    """Return what is left after a checkpoint, checked as the stream does it: the pending batch, the next, the rest."""
    found: list[OffsetRange] = []
    known = at.start
    if at.pending is not None:
        pending = from_json(at.pending)
        here = {queue: bounds[queue] for queue in pending if queue in bounds}
        found += to_read(cluster, options, start, pending, here, known, at.pending)
        start, known = pending, at.pending
    start = {queue: each.low for queue, each in bounds.items()} | start
    latest = start | {queue: each.high for queue, each in bounds.items()}
    most = options.max_offsets_per_trigger
    until = latest if most is None else limited(start, latest, most)
    found += to_read(cluster, options, start, until, bounds, known, None)
    return found + ranges(until, latest, bounds)[0]
