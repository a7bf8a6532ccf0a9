"""A topic that was deleted and made again under a stream: its offsets begin anew, and once it has grown past those of
the checkpoint, no offset shows it.

Times do. With the offsets of a batch the checkpoint keeps when the last message of each broker had been stored, in the
broker's own time. A message before these offsets that was stored later is of another queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..connect.cluster import Cluster
from ..options import ReadOptions
from .offsets import STORED, Bounds, Loss, OffsetRange, Offsets, Queue, ranges, to_json
from .starting import report

_MARGIN_MS = 1000  # a broker's clock may be set back a little


def with_times(offsets: Offsets, stored_ms: Mapping[str, int], start: Mapping[str, Any]) -> dict[str, Any]:
    """Return the offsets for a checkpoint, with when the last message of each broker was stored.

    A time of the batch before, `start`, counts if it is later: the broker's clock was set back since.
    """
    before = start.get(STORED, {})
    times = {broker: max(time_ms, before.get(broker, 0)) for broker, time_ms in sorted(stored_ms.items())}
    return to_json(offsets) | ({STORED: times} if times else {})


def to_read(
    cluster: Cluster,
    options: ReadOptions,
    begin: Offsets,
    until: Offsets,
    bounds: Mapping[Queue, Bounds],
    start: Mapping[str, Any],
    end: Mapping[str, Any] | None,
) -> list[OffsetRange]:
    """Return the ranges of one batch of a stream. DataLoss for what is gone, if that matters.

    `start` and `end` are what the checkpoint has for both ends; no `end` for a batch that was planned just now.
    """
    anew = made_anew(cluster, begin, until, start, end)
    found, lost = ranges({queue: at for queue, at in begin.items() if queue not in anew}, until, bounds)
    report(losses(anew, begin, bounds) + lost, options)
    return found


def made_anew(
    cluster: Cluster,
    begin: Offsets,
    until: Offsets,
    start: Mapping[str, Any],
    end: Mapping[str, Any] | None,
) -> set[Queue]:
    """Return the queues with something to read that are not those of the checkpoint any more."""
    filled = [queue for queue, offset in until.items() if begin.get(queue, 0) < offset]
    anew = _stored_later(cluster, {queue: begin.get(queue, 0) for queue in filled}, start.get(STORED, {}))
    if end is not None:
        # One less: for a time after the last message, brokers before 5.0 answer with that message.
        anew |= _stored_later(cluster, {queue: until[queue] - 1 for queue in filled}, end.get(STORED, {}))
    return anew


def _stored_later(cluster: Cluster, places: Offsets, stored_ms: Mapping[str, int]) -> set[Queue]:
    """Return the queues which hold a message before these places that was stored after the time of their broker."""
    times = {
        queue: stored_ms[queue.broker] + 1 + _MARGIN_MS
        for queue, offset in places.items()
        if offset > 0 and queue.broker in stored_ms
    }
    found = cluster.at_times(times) if times else {}
    return {queue for queue, offset in found.items() if offset < places[queue]}


def losses(anew: set[Queue], begin: Offsets, bounds: Mapping[Queue, Bounds]) -> list[Loss]:
    why = "were stored after the stream had passed them: the queue was made anew"
    return [
        Loss(queue, bounds[queue].low, max(bounds[queue].low, begin.get(queue, 0)), why, is_anew=True)
        for queue in sorted(anew)
        if queue in bounds
    ]
