"""Consumer groups: how they are set, who is in them, what they are doing; made, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.codes import ResponseCode
from ..model.names import is_system_group
from ..model.wire_text import whole_number
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.connections import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProducerConnection,
    ProducerTableInfo,
)
from ..protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupWrapper
from ..protocol.headers.clients import (
    ConsumeMessageDirectly,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
    GetProducerConnectionList,
)
from ..protocol.headers.groups import DeleteSubscriptionGroup, GetAllSubscriptionGroup
from ..protocol.requests import RequestCode
from .calls import Calls, read

_PAGES = 100  # more answers than any broker gives
TOOLS_PREFIX = "pyromq_"  # groups of the command line: their offsets say how far a long piece of work is


async def configs(calls: Calls, address: str) -> dict[str, SubscriptionGroupConfig]:
    """All groups of a broker. Brokers from 5.4 on answer in pages."""
    found: dict[str, SubscriptionGroupConfig] = {}
    for _ in range(_PAGES):
        header = GetAllSubscriptionGroup(group_seq=len(found), max_group_num=1000) if found else None
        answer = await calls.broker(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
        page = read(SubscriptionGroupWrapper, answer).subscription_group_table
        fresh = page.keys() - found.keys()
        found |= page
        if not fresh or len(found) >= (whole_number(answer.fields.get("totalGroupNum")) or 0):
            break
    return found


async def config(calls: Calls, address: str, group: str) -> SubscriptionGroupConfig | None:
    """None if this broker has no such group. (Request 352 makes the group where it may; a look must not.)"""
    return (await configs(calls, address)).get(group)


async def put(calls: Calls, address: str, group: SubscriptionGroupConfig) -> None:
    await calls.broker(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(group))


async def put_many(calls: Calls, address: str, groups: Iterable[SubscriptionGroupConfig]) -> None:
    body = encode_body(SubscriptionGroupList(group_config_list=list(groups)))
    await calls.broker(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)


async def delete(calls: Calls, address: str, group: str, *, with_offsets: bool) -> None:
    header = DeleteSubscriptionGroup(group_name=group, clean_offset=with_offsets)
    await calls.broker(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)


async def connections(calls: Calls, address: str, group: str) -> ConsumerConnection | None:
    """203. None if no member is online there."""
    known = (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE)
    header = GetConsumerConnectionList(consumer_group=group)
    answer = await calls.broker(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, expected=known)
    return None if answer.code == ResponseCode.CONSUMER_NOT_ONLINE else read(ConsumerConnection, answer)


async def running_info(
    calls: Calls, address: str, group: str, client_id: str, *, with_stacks: bool = False
) -> ConsumerRunningInfo:
    """307: a member's own account of itself, which the broker asks it for."""
    header = GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    return read(ConsumerRunningInfo, await calls.broker(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header))


async def consume_directly(calls: Calls, address: str, header: ConsumeMessageDirectly) -> ConsumeMessageDirectlyResult:
    """309: a member is handed one message now."""
    return read(ConsumeMessageDirectlyResult, await calls.broker(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header))


async def producers(calls: Calls, address: str, group: str) -> ProducerConnection:
    """204. Refused if no producer of the group is online there."""
    header = GetProducerConnectionList(producer_group=group)
    return read(ProducerConnection, await calls.broker(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header))


async def all_producers(calls: Calls, address: str) -> ProducerTableInfo:
    return read(ProducerTableInfo, await calls.broker(address, RequestCode.GET_ALL_PRODUCER_INFO))


def is_internal(name: str) -> bool:
    """Nobody's application: the system's own, and those of tools."""
    return is_system_group(name) or name.startswith(TOOLS_PREFIX)
