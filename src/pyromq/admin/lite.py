"""Lite topics of 5.5: what brokers tell of them."""

from __future__ import annotations

from ..protocol.bodies.lite import (
    GetBrokerLiteInfoResponseBody,
    GetLiteClientInfoResponseBody,
    GetLiteGroupInfoResponseBody,
    GetLiteTopicInfoResponseBody,
    GetParentTopicInfoResponseBody,
)
from ..protocol.headers.lite import (
    GetLiteClientInfo,
    GetLiteGroupInfo,
    GetLiteTopicInfo,
    GetParentTopicInfo,
    TriggerLiteDispatch,
)
from ..protocol.requests import RequestCode
from .calls import Calls, read


async def of_broker(calls: Calls, address: str) -> GetBrokerLiteInfoResponseBody:
    return read(GetBrokerLiteInfoResponseBody, await calls.broker(address, RequestCode.GET_BROKER_LITE_INFO))


async def of_parent(calls: Calls, address: str, topic: str) -> GetParentTopicInfoResponseBody:
    answer = await calls.broker(address, RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfo(topic=topic))
    return read(GetParentTopicInfoResponseBody, answer)


async def of_topic(calls: Calls, address: str, parent: str, topic: str) -> GetLiteTopicInfoResponseBody:
    header = GetLiteTopicInfo(parent_topic=parent, lite_topic=topic)
    return read(GetLiteTopicInfoResponseBody, await calls.broker(address, RequestCode.GET_LITE_TOPIC_INFO, header))


async def of_client(
    calls: Calls, address: str, parent: str, group: str, client_id: str
) -> GetLiteClientInfoResponseBody:
    header = GetLiteClientInfo(parent_topic=parent, group=group, client_id=client_id)
    return read(GetLiteClientInfoResponseBody, await calls.broker(address, RequestCode.GET_LITE_CLIENT_INFO, header))


async def of_group(calls: Calls, address: str, group: str, topic: str | None, top: int) -> GetLiteGroupInfoResponseBody:
    header = GetLiteGroupInfo(group=group, lite_topic=topic, top_k=top)
    return read(GetLiteGroupInfoResponseBody, await calls.broker(address, RequestCode.GET_LITE_GROUP_INFO, header))


async def dispatch(calls: Calls, address: str, group: str, client_id: str | None) -> None:
    header = TriggerLiteDispatch(group=group, client_id=client_id)
    await calls.broker(address, RequestCode.TRIGGER_LITE_DISPATCH, header)
