"""Consumer groups: how they are set, who is in them, what they are doing; made, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..model.codes import ResponseCode
from ..model.group import MessageRequestMode
from ..model.names import is_system_group
from ..protocol.bodies.connections import ConsumerConnection, ConsumerRunningInfo
from ..protocol.bodies.groups import SubscriptionGroupConfig
from ..protocol.bodies.heartbeat import SetMessageRequestModeRequestBody
from ..protocol.headers.admin import DeleteSubscriptionGroup, GetAllSubscriptionGroup
from ..protocol.headers.clients import GetConsumerRunningInfo
from ..protocol.headers.header import ConsumerGroupName
from ..protocol.requests import RequestCode
from .calls import Calls

_PAGES = 100  # more answers than any broker gives
CONFLICT_WORDS = ("CONFLICT: ", "REFUSED: ")  # with which our brokers begin a line about a group's members
GATEWAYS_GROUP = "CID_DefaultHeartBeatSyncerTopic"  # with which gateways and proxies hear of each other's clients
TOOLS_PREFIX = "pyromq_"  # groups of the command line: their offsets say how far a long piece of work is


async def configs(calls: Calls, address: str) -> dict[str, SubscriptionGroupConfig]:
    """Return all groups of a broker. Brokers from 5.4 on answer in pages."""
    found: dict[str, SubscriptionGroupConfig] = {}
    for _ in range(_PAGES):
        header = GetAllSubscriptionGroup(group_seq=len(found), max_group_num=1000) if found else None
        answer = await calls.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
        page = answer.body.subscription_group_table
        fresh = page.keys() - found.keys()
        found |= page
        if not fresh or len(found) >= (answer.header.total_group_num or 0):
            break
    return found


async def config(calls: Calls, address: str, group: str) -> SubscriptionGroupConfig | None:
    """Return the group's config; None if this broker has none. Request 352 is not asked: it may make the group."""
    return (await configs(calls, address)).get(group)


async def put(
    calls: Calls, address: str, group: SubscriptionGroupConfig, attributes: Mapping[str, str] | None = None
) -> None:
    """Make or change the group on one broker. `attributes` has `+key` or `-key`; the config's own are not sent."""
    body = msgspec.structs.replace(group, attributes=dict(attributes or {}))
    await calls.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


async def delete(calls: Calls, address: str, group: str, *, with_offsets: bool) -> None:
    header = DeleteSubscriptionGroup(group_name=group, clean_offset=with_offsets)
    await calls.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)


async def modes(calls: Calls, address: str, group: str) -> list[SetMessageRequestModeRequestBody]:
    """Return whether the group pulls or pops, for each topic where that was set."""
    answer = await calls.ask(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    found = (each.get(group) for each in answer.body.message_request_mode_map.values())
    return [one for one in found if one is not None]


async def set_mode(calls: Calls, address: str, group: str, topic: str, mode: str, share: int) -> None:
    """Let the group pull or pop a topic; `share`: members whose queues one pops besides its own, 0 for all."""
    body = SetMessageRequestModeRequestBody(
        consumer_group=group, topic=topic, mode=MessageRequestMode[mode], pop_share_queue_num=share
    )
    await calls.ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)


async def connections(calls: Calls, address: str, group: str) -> ConsumerConnection | None:
    """Return the members that are connected; None if no member is online there."""
    header, offline = ConsumerGroupName(consumer_group=group), ResponseCode.CONSUMER_NOT_ONLINE
    answer = await calls.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, known=[offline])
    return None if answer.code == offline else answer.body


async def conflicts(calls: Calls, address: str, group: str) -> list[str]:
    """Return how members differ in what they subscribe to, and who is refused for it. Only our brokers say so."""
    header, offline = ConsumerGroupName(consumer_group=group), ResponseCode.CONSUMER_NOT_ONLINE
    answer = await calls.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, known=[offline])
    return [line for line in answer.remark.splitlines() if line.startswith(CONFLICT_WORDS)]


async def running_info(
    calls: Calls, address: str, group: str, client_id: str, *, with_stacks: bool = False
) -> ConsumerRunningInfo:
    """Return a member's own account of itself, which the broker asks it for."""
    header = GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    return (await calls.ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)).body


def is_internal(name: str) -> bool:
    """Return whether the group is no application's: the system's own, or one of the tools or of gateways."""
    return is_system_group(name) or name.startswith(TOOLS_PREFIX) or name == GATEWAYS_GROUP
