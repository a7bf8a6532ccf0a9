"""Where a topic, a group or a broker is: what commands look up before they ask. Fails in Java's words."""

from __future__ import annotations

from ..admin import cluster, topics
from ..model.codes import ResponseCode
from ..model.names import retry_topic
from ..model.route import MASTER_ID
from ..protocol.bodies.route import BrokerData, TopicRouteData
from .command import Failed, Run, failed

NO_ROUTE = "No topic route info in name server for the topic: "


async def route_of(run: Run, topic: str) -> TopicRouteData:
    found = await topics.route(run.calls, topic)
    if found is None:
        raise failed(ResponseCode.TOPIC_NOT_EXIST, NO_ROUTE + topic)
    return found


def chosen_address(broker: BrokerData) -> str | None:
    """Return the master's address, or that of a slave while the master is away."""
    addresses = broker.broker_addrs
    return addresses.get(MASTER_ID) or next((addresses[each] for each in sorted(addresses)), None)


async def brokers_of(run: Run, topic: str) -> list[tuple[str, str]]:
    """Return name and address of each broker that has the topic."""
    found = await route_of(run, topic)
    pairs = [(broker.broker_name, chosen_address(broker)) for broker in found.broker_datas]
    return sorted((name, address) for name, address in pairs if address is not None)


async def brokers_of_group(run: Run, group: str, cluster_name: str = "", topic: str = "") -> list[tuple[str, str]]:
    """Return the brokers of its retry topic, on which a member of the group was, or those of a cluster's own topic.

    A group that was never online has no retry topic: then the brokers of `topic`.
    """
    if not cluster_name and topic and await topics.route(run.calls, retry_topic(group)) is None:
        return await brokers_of(run, topic)
    return await brokers_of(run, cluster_name or retry_topic(group))


async def name_at(run: Run, address: str) -> str:
    for place in await cluster.brokers(run.calls):
        if place.address == address:
            return place.name
    raise Failed(f"the name server knows no broker at {address}")
