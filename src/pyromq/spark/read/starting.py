"""From options to offsets: which queues a read is about, where it begins and ends. Asks the cluster; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ... import logs
from ...ambient import pause
from ...client.errors import Error, TopicNotFound
from ...errors import ConfigError
from ..connect.cluster import Cluster
from ..options import ReadOptions
from .offsets import (
    EARLIEST,
    GROUP,
    LATEST,
    Bounds,
    DataLoss,
    Loss,
    OffsetRange,
    Offsets,
    OffsetSpec,
    Queue,
    exact,
    ranges,
)

log = logs.get("pyromq.spark")

# What a query's own filters leave of start and end.
Narrow = Callable[[Cluster, Offsets, Offsets], tuple[Offsets, Offsets]]


def find_queues(cluster: Cluster, options: ReadOptions) -> dict[Queue, str]:
    """Return the queues of the read with their brokers' addresses. TopicNotFound; ConfigError for a wrong queue."""
    if options.assign:
        known = cluster.queues(sorted({queue.topic for queue in options.assign}))
        for queue in sorted(options.assign):
            if queue not in known:
                there = ", ".join(str(each) for each in sorted(known))
                raise ConfigError(f"assign: there is no queue {queue}; there are {there}")
        return {queue: known[queue] for queue in options.assign}
    return cluster.queues(cluster.topics(options.topic_pattern) if options.topic_pattern else options.topic)


def with_retries(cluster: Cluster, options: ReadOptions) -> tuple[dict[Queue, str], dict[Queue, Bounds]]:
    """Return the queues and their bounds; asked again a few times if no broker answers."""
    for left in range(options.fetch_retries, -1, -1):
        try:
            queues = find_queues(cluster, options)
            return queues, cluster.bounds(queues)
        except Error as fault:
            if not left or isinstance(fault, TopicNotFound):  # asked again, the answer would be the same
                raise
            pause(options.fetch_pause_ms / 1000)
    raise AssertionError("the last try returns or raises")


def starting(cluster: Cluster, options: ReadOptions, bounds: Mapping[Queue, Bounds], word: str) -> Offsets:
    """Return where to begin in each queue; `word` where the options say nothing."""
    where = options.starting_offsets or options.starting_times or OffsetSpec(word, options.starting_timestamp)
    found = _resolved(cluster, where, bounds, options.consumer_group, "startingOffsets")
    for queue, (low, high) in sorted(bounds.items()):
        time = where.time_of(queue)
        is_checked = options.starting_strategy == "error" and time is not None and queue not in where.offsets
        if is_checked and found[queue] >= high:
            raise ConfigError(
                f"startingTimestamp: {queue} holds {'nothing' if low == high else f'offsets {low} to {high}'}, none "
                f"stored at {time} or later; startingOffsetsByTimestampStrategy=latest begins at its end instead"
            )
    return found


def ending(cluster: Cluster, options: ReadOptions, bounds: Mapping[Queue, Bounds]) -> Offsets:
    where = options.ending_offsets or options.ending_times or OffsetSpec(LATEST, options.ending_timestamp)
    if where.offsets or where.times_ms or where.topic_times_ms:
        where = replace(where, word=LATEST)
    return _resolved(cluster, where, bounds, "", "endingOffsets")


def _resolved(cluster: Cluster, where: OffsetSpec, bounds: Mapping[Queue, Bounds], group: str, option: str) -> Offsets:
    for queue in (*where.offsets, *where.times_ms):
        if queue not in bounds:
            there = ", ".join(str(each) for each in sorted(bounds)) or "none"
            raise ConfigError(f"{option}: it names the queue {queue}, which this read does not have; it has {there}")
    times = {queue: time for queue in bounds if (time := where.time_of(queue)) is not None}
    found = cluster.at_times(times) if times else {}
    committed = cluster.committed(group, bounds) if where.word == GROUP else {}
    for queue, (low, high) in bounds.items():
        if queue in where.offsets:
            found[queue] = exact(where.offsets[queue], low, high)
        elif queue in times:
            found[queue] = min(found.get(queue, high), high)
        else:
            found[queue] = committed.get(queue, low) if where.word in (EARLIEST, GROUP) else high
    return found


def planned(
    options: ReadOptions, narrow: Narrow = lambda cluster, start, end: (start, end)
) -> list[tuple[OffsetRange, str]]:
    """Return the ranges of a batch read with their brokers' addresses. DataLoss for what is gone, if that matters."""
    with Cluster(options) as cluster:
        queues, bounds = with_retries(cluster, options)
        missing = [queue for queue in queues if queue not in bounds]
        report([Loss(queue, 0, 0, "cannot be read: its broker is away") for queue in missing], options)
        start, end = narrow(cluster, starting(cluster, options, bounds, EARLIEST), ending(cluster, options, bounds))
    end = {queue: max(start[queue], until) for queue, until in end.items()}
    found, lost = ranges(start, end, bounds)
    report(lost, options)
    return [(part, queues.get(part.queue, "")) for part in found]


def within_times(low: int | None, high: int | None) -> Narrow:
    """Return what leaves of start and end the offsets stored from `low` on and before `high`, in milliseconds."""

    def narrow(cluster: Cluster, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        begins = {} if low is None else cluster.at_times(dict.fromkeys(start, low))
        ends = {} if high is None else cluster.at_times(dict.fromkeys(end, high))
        return (
            {queue: max(offset, begins.get(queue, offset)) for queue, offset in start.items()},
            {queue: min(offset, ends.get(queue, offset)) for queue, offset in end.items()},
        )

    return narrow


def report(lost: list[Loss], options: ReadOptions) -> None:
    if not lost:
        return
    text = "; ".join(str(loss) for loss in lost[:5]) + (f"; and {len(lost) - 5} more" if len(lost) > 5 else "")
    if options.fail_on_data_loss:
        is_anew = any(loss.is_anew for loss in lost)
        rest = ": a queue that was made anew is read from its first message" if is_anew else " without them"
        raise DataLoss(f"{text}. Set failOnDataLoss=false to go on{rest}")
    log.warning("data loss", what=text)
