"""Lite topics of 5.5: many light queues below one parent topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from ...client.errors import Refused
from ...protocol.bodies.lite import GetLiteGroupInfoResponseBody
from ...protocol.headers.header import TopicName
from ...protocol.headers.pop import GetLiteClientInfo, GetLiteGroupInfo, GetLiteTopicInfo, TriggerLiteDispatch
from ...protocol.requests import RequestCode
from ...protocol.row import H, R, Row
from ..command import Run, command
from ..options import BROKER
from ..printing import Columns, java, when

lite_command = partial(command, waits_for="lite topics")
PARENT = "-p parentTopic=  the parent topic"
GROUP = "-g group=  the group"
OF_BROKER = Columns(
    "{#Broker:<30} {#Store Type:<17} {#Max LMQ:<10} {#Current LMQ:<14} {#SubscriptionCount:<20} {#OrderInfoCount:<17} "
    "{#CQTableSize:<15} {#OffsetTableSize:<18} {#eventMapSize:<15}"
)
OF_PARENT = Columns("{#Broker Name:<50} {#TTL:<8} {#Lite Count:<14} {#LMQ NUM:<14} {#GROUPS:<100}")
OF_TOPIC = Columns(
    "{#Broker Name:<50} {#MinOffset:<14} {#MaxOffset:<14} {#LastUpdate:<30} {#Sharding:<12} {#SubClientCount:<18}"
)
OF_CLIENT = Columns("{#Broker:<30} {#LiteTopicCount:<20} {#LastAccessTime:<30} {#LastConsumeTime:<30}")
LAG = Columns("{NO:<6} {Lite Topic:<40} {Lag Count:<12} {UnconsumedTimestamp:<30}")


@lite_command("Light queues and lite subscriptions of brokers", (BROKER, "[-c cluster=]  the cluster: all its masters"))
async def get_broker_lite_info(run: Run) -> None:
    """[-d showDetail]  topics and groups too"""
    run.say(OF_BROKER.head)
    for address in await run.masters():
        of = (await run.ask(address, RequestCode.GET_BROKER_LITE_INFO)).body
        counts = (of.max_lmq_num, of.current_lmq_num, of.lite_subscription_count, of.order_info_count)
        sizes = (of.cq_table_size, of.offset_table_size, of.event_map_size)
        run.say(OF_BROKER.format(address, of.store_type or "", *counts, *sizes))
        if "d" in run:
            run.say(f"Topic Meta: {of.topic_meta}", f"Group Meta: {of.group_meta}")


async def _from_all(
    run: Run, row: Row[H, None, None, R], header: H, *, error: str = "[{}] error.", only: str = ""
) -> AsyncIterator[tuple[str, R]]:
    """Yield name and answer of each broker of the parent topic. A refusal is shown, and raised after all were asked."""
    refusal = None
    for name, address in (await run.brokers_of(run["p"])).items():
        if only not in ("", name):
            continue
        try:
            found = await run.ask(address, row, header)
        except Refused as fault:
            refusal = fault
            run.say(error.format(name))
            continue
        yield name, found.body
    if refusal is not None:
        raise refusal


@lite_command("Lite topics below a parent topic", PARENT)
async def get_parent_topic_info(run: Run) -> None:
    parent = run["p"]
    run.say(f"Parent Topic Info: [{parent}]", OF_PARENT.head)
    async for name, of in _from_all(run, RequestCode.GET_PARENT_TOPIC_INFO, TopicName(topic=parent)):
        run.say(OF_PARENT.format(name, of.ttl, of.lite_topic_count, of.lmq_num, ", ".join(of.groups or [])))


@lite_command("Offsets and subscribers of a lite topic", PARENT)
async def get_lite_topic_info(run: Run) -> None:
    """-l liteTopic=   the lite topic
    [-s showClientId]  list the subscribers"""
    parent, topic = run["p"], run["l"]
    run.say(f"Lite Topic Info: [{parent}] [{topic}] [%LMQ%${parent}${topic}]", OF_TOPIC.head)
    header = GetLiteTopicInfo(parent_topic=parent, lite_topic=topic)
    async for name, of in _from_all(run, RequestCode.GET_LITE_TOPIC_INFO, header):
        place, members = of.topic_offset, of.subscriber or []
        offsets = (place.min_offset, place.max_offset, when(place.last_update_timestamp)) if place else ("-", "-", "-")
        run.say(OF_TOPIC.format(name, *offsets, java(of.sharding_to_broker), len(members)))
        for one in members if "s" in run else []:
            run.say(f"{one.client_id} {one.group}")


@lite_command("Lite topics that a client subscribes to", GROUP, PARENT)
async def get_lite_client_info(run: Run) -> None:
    """-c clientId=  the client
    [-s showDetail]  list the lite topics"""
    parent, group, client = run["p"], run["g"], run["c"]
    run.say(f"Lite Client Info: [{parent}] [{group}] [{client}]", OF_CLIENT.head)
    header = GetLiteClientInfo(parent_topic=parent, group=group, client_id=client)
    async for name, of in _from_all(run, RequestCode.GET_LITE_CLIENT_INFO, header):
        run.say(OF_CLIENT.format(name, of.lite_topic_count, when(of.last_access_time), when(of.last_consume_time)))
        run.say_all((of.lite_topic_set or []) if "s" in run else [])


@lite_command("How far a group is in its lite topics", GROUP, PARENT)
async def get_lite_group_info(run: Run) -> None:
    """[-k topK=]    length of the lists per broker, default 20
    [-l liteTopic=]  only this lite topic"""
    header = GetLiteGroupInfo(group=run["g"], lite_topic=run.get("l") or None, top_k=run.number("k", 20))
    run.say(f"Lite Group Info: [{run['g']}] [{run['p']}]")
    found: list[GetLiteGroupInfoResponseBody] = []
    try:
        async for _, of in _from_all(run, RequestCode.GET_LITE_GROUP_INFO, header):
            found.append(of)
    finally:
        _print_group(run, found)


def _print_group(run: Run, found: list[GetLiteGroupInfoResponseBody]) -> None:
    now = run.clock.now_ms()
    times = [of.earliest_unconsumed_timestamp for of in found if of.earliest_unconsumed_timestamp > 0]
    oldest = min([now, *times])
    run.say(f"Total Lag Count: {sum(of.total_lag_count for of in found)}")
    run.say(f"Min Unconsumed Timestamp: {oldest} ({(now - oldest) // 1000} s ago)")
    by_count = [one for of in found for one in of.lag_count_top_k or []]
    by_count.sort(key=lambda each: -each.lag_count)
    by_time = [one for of in found for one in of.lag_timestamp_top_k or []]
    by_time.sort(key=lambda each: each.earliest_unconsumed_timestamp)
    for title, lags in (("count-----", by_count), ("time------", by_time)):
        run.say("", f"------TopK by lag {title}", LAG.head)
        for number, one in enumerate(lags, 1):
            run.say(LAG.format(number, one.lite_topic or "", one.lag_count, one.earliest_unconsumed_timestamp))


@lite_command("Let brokers hand out all lite messages that wait for a group", GROUP, PARENT)
async def trigger_lite_dispatch(run: Run) -> None:
    """[-b brokerName=]  only this broker
    [-c clientId=]       only for this client"""
    run.say(f"Group And Topic Info: [{run['g']}] [{run['p']}]", "")
    header = TriggerLiteDispatch(group=run["g"], client_id=run.get("c") or None)
    row, error = RequestCode.TRIGGER_LITE_DISPATCH, "{:<30} error       "
    async for name, _ in _from_all(run, row, header, error=error, only=run.get("b")):
        run.say(f"{name:<30} dispatched  ")
