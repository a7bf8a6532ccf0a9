"""Whether a heartbeat stays within the settings' limits: refused whole, before anything is made of it. Pure.

Called by `handlers.py`. Each check is linear in the heartbeat, whose length is checked before it is decoded.
"""

from __future__ import annotations

from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from ...transport.peer import Peer
from ..config import BrokerConfig
from ..filters.filters import TAG, check_expression, is_by_tags
from ..metadata.groups import Groups
from .consumers import Consumers
from .producers import Producers


def check_size(body: bytes, config: BrokerConfig) -> None:
    """Check the size before the body is decoded."""
    if len(body) > config.max_heartbeat_bytes:
        raise _above(f"a heartbeat of {len(body)} bytes", "maxHeartbeatBytes", config.max_heartbeat_bytes)


def check_content(beat: HeartbeatData, config: BrokerConfig) -> None:
    """Check what can be seen from the heartbeat alone."""
    count = len(beat.consumer_data_set) + len(beat.producer_data_set)
    _check_count(count, config)
    check_labels(beat.client_id)
    for producer in beat.producer_data_set:
        _check_label("producer group", producer.group_name)
    for data in beat.consumer_data_set:
        check_labels(beat.client_id, data.group_name)
        _check_subscriptions(data, config)
    different = len(expressions(beat))
    if different > config.max_expressions_per_heartbeat:
        what, most = f"a heartbeat with {different} different SQL92 expressions", config.max_expressions_per_heartbeat
        raise _above(what, "maxExpressionsPerHeartbeat", most, ResponseCode.SUBSCRIPTION_PARSE_FAILED)


def expressions(beat: HeartbeatData) -> set[str]:
    """Return what is to be compiled for it, each once: the costly part of a heartbeat."""
    return {
        one.sub_string
        for data in beat.consumer_data_set
        for one in data.subscription_data_set
        if not is_by_tags(one.expression_type)
    }


def check_tables(
    peer: Peer,
    beat: HeartbeatData,
    consumers: Consumers,
    producers: Producers,
    groups: Groups,
    config: BrokerConfig,
    memory_bytes: int,
) -> None:
    """Check what depends on who is there already, and on the machine's memory."""
    said = {data.group_name for data in beat.consumer_data_set}
    produced = {data.group_name for data in beat.producer_data_set}
    count = consumers.count_with(peer, said) + producers.count_with(peer, produced)
    _check_count(count, config)
    missing = [name for name in said if name not in groups and groups.makes(name, config)]
    if missing:
        groups.check_capacity(len(missing), missing[0], config)
    for name in said:
        _check_members(peer, name, consumers, config)
    more = consumers.growth(peer, beat.consumer_data_set) + producers.growth(peer, produced)
    kept, most = consumers.table_bytes + producers.table_bytes, config.client_table_bytes(memory_bytes)
    if more > 0 and kept + more > most:
        what = f"no room for the heartbeat of {beat.client_id}: the clients that are there take about {kept} bytes"
        raise _above(what, "maxClientTableBytes", most, ResponseCode.SYSTEM_BUSY)


def check_labels(client_id: str, group: str = "") -> None:
    """Check the names by which a client calls itself and its group."""
    _check_label("client id", client_id)
    _check_label("consumer group", group)


def _check_label(what: str, text: str) -> None:
    fault = names.label_fault(what, text)
    if fault is not None:
        raise RequestRefused(fault, ResponseCode.INVALID_PARAMETER)


def _check_subscriptions(data: ConsumerData, config: BrokerConfig) -> None:
    count = len(data.subscription_data_set)
    if count > config.max_subscriptions_per_group:
        what = f"group {data.group_name} subscribes to {count} topics"
        raise _above(what, "maxSubscriptionsPerGroup", config.max_subscriptions_per_group)
    for one in data.subscription_data_set:
        _check_label("topic", one.topic)
        if one.expression_type is not None and one.expression_type != TAG:
            _check_label("expression type", one.expression_type)
        check_expression(one.topic, max(len(one.tags_set), len(one.code_set)), one.sub_string, config)


def _check_members(peer: Peer, name: str, consumers: Consumers, config: BrokerConfig) -> None:
    group = consumers.find(name)
    if group is not None and peer not in group.members and len(group.members) >= config.max_clients_per_group:
        what, most = f"group {name} has {len(group.members)} clients", config.max_clients_per_group
        raise _above(what, "maxClientsPerGroup", most, ResponseCode.SYSTEM_BUSY)


def _check_count(groups: int, config: BrokerConfig) -> None:
    if groups > config.max_groups_per_client:
        raise _above(f"a client with {groups} groups", "maxGroupsPerClient", config.max_groups_per_client)


def _above(what: str, setting: str, most: int, code: int = ResponseCode.INVALID_PARAMETER) -> RequestRefused:
    return RequestRefused(f"{what}, the limit ({setting}) is {most}", code)
