"""What brokers say of a group: its members that are online, and where it is in each queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from ...client.errors import Refused
from ...model.group import ConsumeType, MessageRequestMode
from ...protocol.bodies.connections import ConsumerConnection
from .. import groups, offsets, proxies
from ..calls import Calls
from ..cluster import BrokerPlace

PROXY = "proxy "  # before the name of one, among names of brokers


async def online_in(calls: Calls, places: Iterable[BrokerPlace], name: str) -> dict[str, ConsumerConnection]:
    """Return the members by broker, and those that brokers do not know by proxy: gRPC clients there."""
    asked = {place.name: await groups.connections(calls, place.address, name) for place in places}
    found = {broker: each for broker, each in asked.items() if each is not None}
    known = {one.client_id for each in found.values() for one in each.connection_set}
    for proxy, each in (await proxies.connections(calls, name)).items():
        each.connection_set = [one for one in each.connection_set if one.client_id not in known]
        if each.connection_set:
            found[f"{PROXY}{proxy}"] = each
    return found


async def queues_of(calls: Calls, places: Iterable[BrokerPlace], name: str, topic: str | None) -> list[dict[str, Any]]:
    rows = []
    for place in places:
        progress = await offsets.waiting(calls, place.address, name, topic)
        for queue, one in sorted(progress.offset_table.items(), key=lambda item: (item[0].topic, item[0].queue_id)):
            rows.append(
                {"topic": queue.topic, "broker": place.name, "queue": queue.queue_id, "end": one.broker_offset}
                | {"committed": one.consumer_offset, "lag": one.lag}
                | {"underWay": max(0, one.in_flight), "lastMs": one.last_timestamp}
                | ({"isBeyondEnd": True} if one.consumer_offset > one.broker_offset else {})
            )
    return rows


async def popped_in(
    calls: Calls, places: Iterable[BrokerPlace], name: str, online: dict[str, ConsumerConnection]
) -> Callable[[str], bool]:
    """Return who tells whether members pop a topic, so that they share messages: not in order, and nobody pulls.

    Our brokers know. Of Apache's it is seen where the group is set to pop, or its members are a proxy's.
    """
    by_members = any(each.consume_type is ConsumeType.POP or at.startswith(PROXY) for at, each in online.items())
    topics: set[str] = set()
    for place in places:
        config = await groups.config(calls, place.address, name)
        if config is not None and config.consume_message_orderly:
            return lambda topic: False
        topics |= {*((await offsets.progress(calls, place.address, name)).popped or ())}
        with suppress(Refused):  # a broker before 4.9.4 knows no modes
            modes = await groups.modes(calls, place.address, name)
            topics |= {one.topic for one in modes if one.mode is MessageRequestMode.POP}
    return lambda topic: by_members or topic in topics
