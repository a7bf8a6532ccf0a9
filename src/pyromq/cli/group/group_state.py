"""What brokers say of a group: its members that are online, and where it is in each queue. For commands of `group`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import admin
from ..terminal.shell import Shell

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace
    from ...protocol.bodies.connections import ConsumerConnection


async def online_in(shell: Shell, places: Iterable[BrokerPlace], name: str) -> dict[str, ConsumerConnection]:
    found = {place.name: await admin.groups.connections(shell.calls, place.address, name) for place in places}
    return {broker: each for broker, each in found.items() if each is not None}


async def queues_of(shell: Shell, places: Iterable[BrokerPlace], name: str, topic: str | None) -> list[dict[str, Any]]:
    rows = []
    for place in places:
        progress = await admin.offsets.waiting(shell.calls, place.address, name, topic)
        for queue, one in sorted(progress.offset_table.items(), key=lambda item: (item[0].topic, item[0].queue_id)):
            rows.append(
                {"topic": queue.topic, "broker": place.name, "queue": queue.queue_id, "end": one.broker_offset}
                | {"committed": one.consumer_offset, "lag": one.lag}
                | {"underWay": max(0, one.in_flight), "lastMs": one.last_timestamp}
                | ({"isBeyondEnd": True} if one.consumer_offset > one.broker_offset else {})
            )
    return rows
