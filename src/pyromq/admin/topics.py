"""Topics: which there are, where, how they are set, how full their queues are, and how much goes in and out of them as
brokers count it; made, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..client.errors import Refused
from ..errors import ConfigError
from ..model.codes import ResponseCode
from ..model.names import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, is_system_topic
from ..model.topic import ORDER_TOPIC_CONFIG, order_text, parse_order
from ..protocol.bodies.keyed import ByQueue, MessageQueue
from ..protocol.bodies.offsets import TopicStatsTable
from ..protocol.bodies.route import TopicRouteData
from ..protocol.bodies.stats import BrokerStatsData
from ..protocol.bodies.topics import TopicConfig, TopicConfigAndQueueMapping
from ..protocol.headers.admin import CreateTopic, GetAllTopicConfig, ViewBrokerStatsData
from ..protocol.headers.header import TopicName
from ..protocol.headers.namesrv import DeleteTopicInNamesrv, GetRouteInfo
from ..protocol.requests import RequestCode
from . import settings
from .calls import Calls
from .cluster import BrokerPlace

V = TypeVar("V")
_PAGES = 100  # more answers than any broker gives


async def names(calls: Calls) -> list[str]:
    """Return all topics that the name server knows, system topics included; sorted."""
    return sorted((await calls.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body.topic_list)


async def route(calls: Calls, topic: str) -> TopicRouteData | None:
    """Return the route; None if the name server knows no such topic, or no broker that has it."""
    header, missing = GetRouteInfo(topic=topic, accept_standard_json_only=True), ResponseCode.TOPIC_NOT_EXIST
    answer = await calls.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, known=[missing])
    return None if answer.code == missing else answer.body


async def config(
    calls: Calls, address: str, topic: str, *, logical: bool | None = None
) -> TopicConfigAndQueueMapping | None:
    """Return the topic's config; None if this broker has none. The mapping of a static topic needs `logical`."""
    header, missing = TopicName(topic=topic, lo=logical), ResponseCode.TOPIC_NOT_EXIST
    answer = await calls.ask(address, RequestCode.GET_TOPIC_CONFIG, header, known=[missing])
    return None if answer.code == missing else answer.body


async def configs(calls: Calls, address: str) -> dict[str, TopicConfig]:
    """Return all topics of a broker. Brokers from 5.4 on answer in pages."""
    found: dict[str, TopicConfig] = {}
    for _ in range(_PAGES):
        header = GetAllTopicConfig(topic_seq=len(found), max_topic_num=1000) if found else GetAllTopicConfig()
        answer = await calls.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, header)
        page = answer.body.topic_config_table
        fresh = page.keys() - found.keys()
        found |= page
        if not fresh or len(found) >= (answer.header.total_topic_num or 0):
            break
    return found


async def put(
    calls: Calls, address: str, topic: TopicConfig, attributes: str | None = None, *, force: bool = False
) -> None:
    """Make or change the topic on one broker. `attributes` is `+key=value,-key`; the config's own are not sent.

    `force`: other queues for an order topic too, although keys of messages that are not consumed move by it.
    """
    header = CreateTopic.of(topic, attributes=attributes, force=force)
    await calls.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


async def put_order(calls: Calls, topic: str, queues: Mapping[str, int]) -> None:
    """Let name servers say how many queues these brokers have of an order topic, 0 for none. Other brokers' stay.

    Clients choose among those queues, also while one of the brokers is away.
    """
    known = await ordered_queues(calls, topic)
    if order := order_text(known | dict(queues)):
        await settings.kv_put(calls, ORDER_TOPIC_CONFIG, topic, order)
    elif known:
        await settings.kv_delete(calls, ORDER_TOPIC_CONFIG, topic)


async def ordered_queues(calls: Calls, topic: str) -> dict[str, int]:
    """Return, by broker, the queues that keys of an order topic are divided among. ConfigError if it is nonsense."""
    try:
        return parse_order(topic, await settings.kv_get(calls, ORDER_TOPIC_CONFIG, topic) or "")
    except ValueError as fault:
        raise ConfigError(f"{fault}. Set it right: pyromq kv set {ORDER_TOPIC_CONFIG} {topic} BROKER:QUEUES") from None


async def delete_in_broker(calls: Calls, address: str, topic: str) -> None:
    await calls.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicName(topic=topic))


async def delete_in_name_servers(calls: Calls, topic: str, cluster: str | None = None) -> None:
    header = DeleteTopicInNamesrv(topic=topic, cluster_name=cluster)
    await calls.ask_each_name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


async def forget_in_name_servers(calls: Calls, topic: str, cluster: str | None = None) -> Refused | None:
    """Delete it there, or return the refusal: RocketMQ lets only who may `Update` the cluster do that, while `Delete`
    on the topic is enough for brokers."""
    try:
        await delete_in_name_servers(calls, topic, cluster)
    except Refused as fault:
        if fault.code != ResponseCode.NO_PERMISSION:
            raise
        return fault
    return None


async def stats(calls: Calls, address: str, topic: str) -> TopicStatsTable:
    """Return the least and greatest offset of each queue on this broker. Refused if it has no such topic."""
    return (await calls.ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicName(topic=topic))).body


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
    """Return a broker's queues in the order of their numbers."""
    return sorted(table.items(), key=lambda item: item[0].queue_id)


async def groups(calls: Calls, address: str, topic: str) -> list[str]:
    """Return the groups that consume the topic on this broker."""
    answer = await calls.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicName(topic=topic))
    return sorted(answer.body.group_list)


def is_internal(name: str) -> bool:
    """Return whether people seldom want the topic: retries, dead letters, the system's own."""
    return (
        is_system_topic(name)
        or name.startswith((RETRY_PREFIX, DLQ_PREFIX, "DefaultHeartBeatSyncerTopic"))
        or name.endswith(REPLY_SUFFIX)
    )


PUT, GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages a second in the last minute, and of a day."""

    per_second: float
    of_day: int


async def into_topic(calls: Calls, addresses: Iterable[str], topic: str) -> Traffic:
    """Return the sum of what these brokers counted."""
    return await _counted(calls, addresses, PUT, topic)


async def to_group(calls: Calls, addresses: Iterable[str], topic: str, group: str) -> Traffic:
    return await _counted(calls, addresses, GET, f"{topic}@{group}")


async def _counted(calls: Calls, addresses: Iterable[str], name: str, key: str) -> Traffic:
    missing = ResponseCode.SYSTEM_ERROR  # Java's answer to a counter that is not there
    header = ViewBrokerStatsData(stats_name=name, stats_key=key)
    total = Traffic(0.0, 0)
    for address in addresses:
        answer = await calls.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header, known=[missing])
        if answer.code != missing:
            data, of_day = answer.body, answer.header.sum_of_day
            day = _sampled_day(data) if of_day is None else of_day
            total = Traffic(total.per_second + data.stats_minute.tps, total.of_day + day)
    return total


def _sampled_day(data: BrokerStatsData) -> int:
    """Return the sum of Apache's samples; young counters have only an hour's or a minute's."""
    return data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum
