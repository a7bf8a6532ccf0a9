"""Where groups would go on after a reset or a skip: shown first, then done. For `pyromq group` and the dashboard.

Members online are told by request 222, as `mqadmin` does it. Where nobody is online the offsets are committed: after a
222 the next member would drop its queues at its first pull, and stand still for ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.errors import Refused
from ...errors import PyroError
from .. import groups, offsets, topics
from ..calls import Calls
from ..cluster import BrokerPlace
from ..offsets import ALL_QUEUES, TO_THE_END


class OutOfReach(PyroError):
    """The offset that is wanted is none of the queue's."""


@dataclass(slots=True)
class OffsetMove:
    """One topic of a group to be moved, on these brokers."""

    group: str
    topic: str
    places: Sequence[BrokerPlace]
    queue: int | None
    time_ms: int
    offset: int | None = None
    shows_group: bool = False  # where there are several

    def row(self, broker: str, queue: int, goal: dict[str, Any]) -> dict[str, Any]:
        whose = {"group": self.group} if self.shows_group else {}
        return whose | {"topic": self.topic, "broker": broker, "queue": queue} | goal


def goal(now: int | None, to: int, first: int) -> dict[str, Any]:
    """Return the columns of a queue: from where to where, and how many messages that leaves out or brings again."""
    begin = max(first, now or 0)
    return {"now": now, "goesOnAt": to, "leftOut": max(0, to - begin), "again": max(0, begin - max(first, to))}


def consequence(plan: Sequence[dict[str, Any]]) -> str:
    """Return `: 4 messages are left out and 2 come again`, or nothing."""
    out, again = (sum(row[column] for row in plan) for column in ("leftOut", "again"))
    words = [f"{out} messages are left out"] if out else []
    return f": {' and '.join(words + ([f'{again} come again'] if again else []))}" if out or again else ""


async def plan(calls: Calls, work: OffsetMove, place: BrokerPlace) -> list[dict[str, Any]]:
    """Return from where to where, as far as that is known without doing it. OutOfReach."""
    try:
        table = (await topics.stats(calls, place.address, work.topic)).offset_table
    except Refused:
        return []  # not on this broker
    rows = []
    for queue, reach in topics.by_number(table):
        if work.queue is not None and queue.queue_id != work.queue:
            continue
        now = await offsets.committed(calls, place.address, work.group, work.topic, queue.queue_id)
        to = work.offset if work.offset is not None else reach.max_offset
        if work.offset is not None and not reach.min_offset <= to <= reach.max_offset:  # what the broker would refuse
            reached = f"has offsets {reach.min_offset} to {reach.max_offset} alone"
            raise OutOfReach(f"offset {to}: queue {queue.queue_id} of {work.topic} on {place.name} {reached}")
        if work.offset is None and work.time_ms != TO_THE_END:
            to = await offsets.at_time(calls, place.address, work.topic, queue.queue_id, work.time_ms)
        rows.append(work.row(queue.broker_name, queue.queue_id, goal(now, to, reach.min_offset)))
    return rows


async def apply(
    calls: Calls, work: OffsetMove, place: BrokerPlace, planned: Sequence[dict[str, Any]], faults: list[str]
) -> list[dict[str, Any]]:
    """Do on one broker what was planned. Return where queues go on; what the broker refuses is added to `faults`."""
    done = await _commit(calls, work, place, planned)
    return await _reset(calls, work, place, faults) if done is None else done


async def _commit(
    calls: Calls, work: OffsetMove, place: BrokerPlace, planned: Sequence[dict[str, Any]]
) -> list[dict[str, Any]] | None:
    """Commit the offsets. None if a member is online or an earlier reset is pending: then not all is done."""
    if not planned or await groups.connections(calls, place.address, work.group) is not None:
        return None
    for row in planned:
        where = (place.address, work.group, work.topic, row["queue"])
        await offsets.commit(calls, *where, row["goesOnAt"])
        if await offsets.committed(calls, *where) != row["goesOnAt"]:
            return None
    return _results(planned)


async def _reset(calls: Calls, work: OffsetMove, place: BrokerPlace, faults: list[str]) -> list[dict[str, Any]]:
    queue = ALL_QUEUES if work.queue is None else work.queue
    where = (calls, place.address, work.group, work.topic)
    try:
        body = await offsets.reset(*where, time_ms=work.time_ms, queue_id=queue, offset=work.offset)
    except Refused as fault:
        faults.append(str(fault))
        return []
    moved = topics.by_number(body.offset_table)
    return [work.row(at.broker_name, at.queue_id, {"goesOnAt": offset}) for at, offset in moved]


def _results(planned: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in ("now", "leftOut", "again")} for row in planned]
