"""Whether a broker may register as what it says it is: names and addresses that others can use, and room for it.

Called by `handlers/`. Every client and every tool gets what is registered here, so one bad entry would be everybody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """Refuse a broker or topics beyond what this name server may keep."""
    count = table.replica_count()
    if count >= config.max_brokers and table.version(new.cluster, new.address) is None:
        raise RequestRefused(
            f"register broker failed: {count} brokers are registered, the limit (maxBrokers) is {config.max_brokers}",
            ResponseCode.INVALID_PARAMETER,
        )
    check_topic_room(new.topics, table, config)


def check_topic_room(names: Mapping[str, object], table: RouteTable, config: NamesrvConfig) -> None:
    known = table.topic_count()
    if known + len(names) <= config.max_topics:
        return  # as always
    more = sum(not table.has_topic(name) for name in names)
    if more and known + more > config.max_topics:
        raise RequestRefused(
            f"{more} topics more than the {known} that are registered would be too many, the limit (maxTopics) is "
            f"{config.max_topics}",
            ResponseCode.INVALID_PARAMETER,
        )


def without_odd_names(topics: Mapping[str, TopicConfig]) -> Mapping[str, TopicConfig]:
    """The topics that others can be told of. No broker makes others, and the rest of the table is none the worse."""
    if all(label_fault("topic", name) is None for name in topics):
        return topics
    return {name: one for name, one in topics.items() if label_fault("topic", name) is None}


def usable_addresses(addresses: Sequence[str]) -> list[str]:
    """The filter servers of a broker of 4.x, as far as they can be reached."""
    return [address for address in addresses[:MOST_FILTER_SERVERS] if address_fault(address) is None]
