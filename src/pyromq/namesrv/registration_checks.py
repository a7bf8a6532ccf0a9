"""Whether a broker may register as what it says it is: names and addresses that others can use, and room for it.

Called by `handlers/`. Every client and every tool gets what is registered here, so one bad entry would be everybody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..model.names import label_fault
from ..protocol.bodies.topics import TopicConfig
from ..protocol.headers.namesrv import RegisterBroker
from ..transport.address import address_fault
from .config import NamesrvConfig
from .registration import Registration
from .route_table import RouteTable

MOST_FILTER_SERVERS = 100  # of one broker


def check_identity(header: RegisterBroker) -> None:
    """Refuse names that cannot be printed and addresses that are none. Java names brokers after hosts, dots and all."""
    labels = {"cluster name": header.cluster_name, "broker name": header.broker_name}
    faults = [label_fault(what, text) if text.strip() else f"the {what} is empty" for what, text in labels.items()]
    faults.append(label_fault("zone name", header.zone_name or ""))
    faults.append(address_fault(header.broker_addr))
    faults.append(address_fault(header.ha_server_addr) if header.ha_server_addr else None)
    fault = next(filter(None, faults), None)
    if fault is not None:
        raise RequestRefused(f"register broker failed: {fault}", ResponseCode.INVALID_PARAMETER)


def check_room(new: Registration, table: RouteTable, config: NamesrvConfig) -> None:
    """Refuse a broker beyond what this name server may keep. Known ones go on, also those that come back elsewhere."""
    count = table.replica_count()
    is_known = table.version(new.cluster, new.address) is not None or new.broker_id in table.members(new.broker_name)
    if count >= config.max_brokers and not is_known:
        raise RequestRefused(
            f"register broker failed: {count} brokers are registered, the limit (maxBrokers) is {config.max_brokers}",
            ResponseCode.INVALID_PARAMETER,
        )


def within_topic_limit(new: Registration, table: RouteTable, config: NamesrvConfig) -> Registration:
    """Return the registration without the new topics for which there is no room; what is known of it stays."""
    room = config.max_topics - table.topic_count()
    if len(new.topics) <= room:
        return new  # as always
    more = [name for name in new.topics if not table.has_topic(name)]
    left_out = frozenset(more[max(0, room) :])
    if not left_out:
        return new
    kept = {name: one for name, one in new.topics.items() if name not in left_out}
    return replace(new, topics=kept, left_out=left_out)


def check_topic_room(name: str, table: RouteTable, config: NamesrvConfig) -> None:
    """Refuse a single topic that is new and for which there is no room."""
    known = table.topic_count()
    if known >= config.max_topics and not table.has_topic(name):
        raise RequestRefused(
            f"topic {name} is not registered: {known} topics are, the limit (maxTopics) is {config.max_topics}",
            ResponseCode.INVALID_PARAMETER,
        )


def without_odd_names(topics: Mapping[str, TopicConfig]) -> Mapping[str, TopicConfig]:
    """Return the topics that others can be told of. No broker makes others."""
    if all(label_fault("topic", name) is None for name in topics):
        return topics
    return {name: one for name, one in topics.items() if label_fault("topic", name) is None}


def usable_addresses(addresses: Sequence[str]) -> list[str]:
    """Return the filter servers of a broker of 4.x, as far as they can be reached."""
    return [address for address in addresses[:MOST_FILTER_SERVERS] if address_fault(address) is None]
