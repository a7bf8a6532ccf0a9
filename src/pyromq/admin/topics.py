"""Topics: which there are, where, how they are set and how full their queues are; made, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..model.codes import ResponseCode
from ..model.names import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, is_system_topic
from ..model.wire_text import whole_number
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.groups import GroupList
from ..protocol.bodies.keyed import ByQueue, MessageQueue
from ..protocol.bodies.offsets import TopicStatsTable
from ..protocol.bodies.route import TopicRouteData
from ..protocol.bodies.topics import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigAndQueueMapping,
    TopicConfigSerializeWrapper,
    TopicList,
)
from ..protocol.headers.marks import RpcHeader
from ..protocol.headers.namesrv import DeleteTopicInNamesrv, GetRouteInfo
from ..protocol.headers.topics import CreateTopic, GetAllTopicConfig, TopicName
from ..protocol.requests import RequestCode
from .calls import Calls, read
from .cluster import BrokerPlace

V = TypeVar("V")
_PAGES = 100  # more answers than any broker gives


async def names(calls: Calls) -> list[str]:
    """All topics that the name server knows, system topics included; sorted."""
    return sorted(read(TopicList, await calls.name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).topic_list)


async def route(calls: Calls, topic: str) -> TopicRouteData | None:
    """None if the name server knows no such topic, or no broker that has it."""
    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    known = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
    answer = await calls.name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, expected=known)
    return None if answer.code == ResponseCode.TOPIC_NOT_EXIST else read(TopicRouteData, answer)


async def config(calls: Calls, address: str, topic: str) -> TopicConfig | None:
    """None if this broker has no such topic."""
    known = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
    answer = await calls.broker(address, RequestCode.GET_TOPIC_CONFIG, TopicName(topic=topic), expected=known)
    return None if answer.code == ResponseCode.TOPIC_NOT_EXIST else read(TopicConfigAndQueueMapping, answer)


async def configs(calls: Calls, address: str) -> dict[str, TopicConfig]:
    """All topics of a broker. Brokers from 5.4 on answer in pages."""
    found: dict[str, TopicConfig] = {}
    for _ in range(_PAGES):
        header = GetAllTopicConfig(topic_seq=len(found), max_topic_num=1000) if found else GetAllTopicConfig()
        answer = await calls.broker(address, RequestCode.GET_ALL_TOPIC_CONFIG, header)
        page = read(TopicConfigSerializeWrapper, answer).topic_config_table
        fresh = page.keys() - found.keys()
        found |= page
        if not fresh or len(found) >= (whole_number(answer.fields.get("totalTopicNum")) or 0):
            break
    return found


async def put(calls: Calls, address: str, topic: TopicConfig, attributes: str | None = None) -> None:
    """Make or change it on one broker. `attributes` is `+key=value,-key`; the config's own are not sent."""
    header = CreateTopic.of(topic, attributes=attributes)
    await calls.broker(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


async def put_many(calls: Calls, address: str, topics: Iterable[TopicConfig]) -> None:
    body = encode_body(CreateTopicListRequestBody(topic_config_list=list(topics)))
    await calls.broker(address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RpcHeader(), body)


async def delete_in_broker(calls: Calls, address: str, topic: str) -> None:
    await calls.broker(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicName(topic=topic))


async def delete_in_name_servers(calls: Calls, topic: str, cluster: str | None = None) -> None:
    header = DeleteTopicInNamesrv(topic=topic, cluster_name=cluster)
    await calls.name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


async def stats(calls: Calls, address: str, topic: str) -> TopicStatsTable:
    """202: the least and greatest offset of each queue on this broker. Refused if it has no such topic."""
    answer = await calls.broker(address, RequestCode.GET_TOPIC_STATS_INFO, TopicName(topic=topic))
    return read(TopicStatsTable, answer)


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The messages of one queue on one broker: from offset `first` up to `end`."""

    place: BrokerPlace
    queue_id: int
    first: int
    end: int

    @property
    def count(self) -> int:
        return max(0, self.end - self.first)


async def queues(calls: Calls, places: Iterable[BrokerPlace], topic: str) -> list[QueueRange]:
    """Return the topic's queues on those of the brokers that have it, by broker and number."""
    having = [place for place in places if await config(calls, place.address, topic) is not None]
    return [
        QueueRange(place, queue.queue_id, at.min_offset, at.max_offset)
        for place in having
        for queue, at in by_number((await stats(calls, place.address, topic)).offset_table)
    ]


def by_number(table: ByQueue[V]) -> list[tuple[MessageQueue, V]]:
    """Return what a broker tells of its queues in the order of their numbers."""
    return sorted(table.items(), key=lambda item: item[0].queue_id)


async def groups(calls: Calls, address: str, topic: str) -> list[str]:
    """300: who consumes it on this broker."""
    answer = await calls.broker(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicName(topic=topic))
    return sorted(read(GroupList, answer).group_list)


async def system_names(calls: Calls, address: str) -> list[str]:
    """305: what this broker takes for its own."""
    answer = await calls.broker(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return sorted(read(TopicList, answer).topic_list)


def is_internal(name: str) -> bool:
    """What people seldom look for: retries, dead letters, the system's own."""
    return (
        is_system_topic(name)
        or name.startswith((RETRY_PREFIX, DLQ_PREFIX, "DefaultHeartBeatSyncerTopic"))
        or name.endswith(REPLY_SUFFIX)
    )
