"""One topic, asked live: its queues on every broker, who reads it, how it is set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from ...admin import topics
from ...admin.cluster import BrokerPlace
from ..watch.figures import Unknown, split_pair
from .asking import ask_one
from .missing import NotThere
from .rows import TopicRow, topic_rows

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch


class TopicQueueRow(msgspec.Struct, frozen=True, kw_only=True):
    broker: str
    queue: int
    first: int
    end: int
    kept: int
    newest_ms: int | None


class TopicReader(msgspec.Struct, frozen=True, kw_only=True):
    """A group that consumes the topic, as the snapshot has it."""

    group: str
    broker: str
    lag: int | Unknown
    in_flight: int | Unknown
    out_per_second: float | Unknown
    oldest_ms: int | Unknown | None


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    topic: TopicRow
    queues: list[TopicQueueRow]
    readers: list[TopicReader]
    settings: list[dict[str, str]]
    missing: list[str]  # brokers that did not answer now, and why


async def topic(cluster: ClusterWatch, name: str) -> TopicPage:
    """Return a topic. NotThere if no broker of the snapshot has it."""
    snapshot = cluster.snapshot
    row = next((one for one in topic_rows(snapshot, system=True) if one.name == name), None)
    if row is None:
        raise NotThere("topic", name, [one.name for one in topic_rows(snapshot, system=False)])
    places = [place for place in cluster.places if place.name in row.brokers]
    found = await asyncio.gather(*(ask_one(place.name, _queues(cluster, place, name)) for place in places))
    silent = [f"{one.name}: {one.fault}" for one in snapshot.silent if one.name in row.brokers]
    return TopicPage(
        topic=row,
        queues=[queue for each in found if not isinstance(each, Unknown) for queue in each],
        readers=_readers(cluster, name),
        settings=[
            {
                "broker": broker.name,
                "writeQueues": str(broker.topics[name].write_queues),
                "readQueues": str(broker.topics[name].read_queues),
                "type": broker.topics[name].kind or "NORMAL",
                "order": "yes" if broker.topics[name].order else "no",
            }
            for broker in snapshot.masters
            if name in broker.topics
        ],
        missing=silent + [each.unknown for each in found if isinstance(each, Unknown)],
    )


async def _queues(cluster: ClusterWatch, place: BrokerPlace, name: str) -> list[TopicQueueRow]:
    table = (await topics.stats(cluster.calls, place.address, name)).offset_table
    return [
        TopicQueueRow(
            broker=place.name,
            queue=queue.queue_id,
            first=at.min_offset,
            end=at.max_offset,
            kept=at.count,
            newest_ms=at.last_update_timestamp if at.last_update_timestamp > 0 else None,
        )
        for queue, at in topics.by_number(table)
    ]


def _readers(cluster: ClusterWatch, name: str) -> list[TopicReader]:
    found = []
    for broker in cluster.snapshot.masters:
        silent = Unknown(broker.fault) if broker.fault else None
        for key, pair in broker.pairs.items():
            topic_name, group = split_pair(key)
            if topic_name == name:
                found.append(
                    TopicReader(
                        group=group,
                        broker=broker.name,
                        lag=silent or pair.lag,
                        in_flight=silent or pair.in_flight,
                        out_per_second=silent or pair.out_per_second,
                        oldest_ms=silent or pair.oldest_ms,
                    )
                )
    return sorted(found, key=lambda one: (one.group, one.broker))
