"""What is in flight of stored check points by the log alone: every record of timer and revive topic is read."""

from __future__ import annotations

from collections import Counter

from pyromq.broker.pop.stored.java_records import PointKey, StoredCheckPoint, key_of_ack, point_key, read_entry
from tests.broker.virtual import Virtual

TIMER, REVIVE, QUEUES = "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster", 8


def stored_by_log(life: Virtual, at_ms: int) -> dict[tuple[str, str], int]:
    """Return how many messages were neither acked nor due at a time, by group and topic."""
    points: dict[PointKey, StoredCheckPoint] = {}
    acked: dict[PointKey, set[int]] = {}
    for record in (*life.stored(TIMER), *(one for queue in range(QUEUES) for one in life.stored(REVIVE, queue))):
        entry = read_entry(record)
        if entry is None:
            continue
        if isinstance(entry.content, StoredCheckPoint):
            points[point_key(entry.content)] = entry.content
        else:
            acked.setdefault(key_of_ack(entry.content, "broker-a"), set()).update(entry.content.acked)
    found: Counter[tuple[str, str]] = Counter()
    for key, point in points.items():
        if point.revive_ms > at_ms:
            found[point.group, point.topic] += len(point.open_offsets - acked.get(key, set()))
    return {pair: count for pair, count in found.items() if count}
