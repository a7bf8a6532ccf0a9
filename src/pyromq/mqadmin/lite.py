"""Lite topics of 5.5: many light queues below one parent topic."""

from __future__ import annotations

from ..admin import lite
from ..client.errors import Refused
from ..protocol.bodies.lite import LiteLagInfo
from . import places
from .command import Run, command
from .options import flag, may, need, one_of
from .printing import truth, when

WAITS_FOR = "lite topics"
PARENT = need("p", "parentTopic", "the parent topic")
GROUP = need("g", "group", "the group")
OF_BROKER = "{:<30} {:<17} {:<10} {:<14} {:<20} {:<17} {:<15} {:<18} {:<15}"
OF_PARENT = "{:<50} {:<8} {:<14} {:<14} {:<100}"
OF_TOPIC = "{:<50} {:<14} {:<14} {:<30} {:<12} {:<18}"
OF_CLIENT = "{:<30} {:<20} {:<30} {:<30}"
LAG = "{:<6} {:<40} {:<12} {:<30}"


@command(
    "getBrokerLiteInfo",
    "Light queues and lite subscriptions of brokers",
    one_of(may("b", "brokerAddr", "the broker, host:port"), may("c", "cluster", "the cluster: all its masters")),
    flag("d", "showDetail", "topics and groups too"),
    waits_for=WAITS_FOR,
)
async def get_broker_lite_info(run: Run) -> None:
    run.say(
        OF_BROKER.format(
            "#Broker",
            "#Store Type",
            "#Max LMQ",
            "#Current LMQ",
            "#SubscriptionCount",
            "#OrderInfoCount",
            "#CQTableSize",
            "#OffsetTableSize",
            "#eventMapSize",
        )
    )
    for address in await run.masters():
        of = await lite.of_broker(run.calls, address)
        counts = (of.max_lmq_num, of.current_lmq_num, of.lite_subscription_count, of.order_info_count)
        sizes = (of.cq_table_size, of.offset_table_size, of.event_map_size)
        run.say(OF_BROKER.format(address, of.store_type or "", *counts, *sizes))
        if "d" in run:
            run.say(f"Topic Meta: {of.topic_meta}\nGroup Meta: {of.group_meta}")


async def _ask_all(run: Run, parent: str) -> list[tuple[str, str]]:
    return await places.brokers_of(run, parent)


def _refused(run: Run, broker: str, refusal: Refused) -> None:
    """As the Java tool, the other brokers are still asked; the last refusal ends the command."""
    run.say(f"[{broker}] error.")
    run.warn(f"{broker}: {refusal.remark}")


@command("getParentTopicInfo", "Lite topics below a parent topic", PARENT, waits_for=WAITS_FOR)
async def get_parent_topic_info(run: Run) -> None:
    parent = run["p"]
    run.say(f"Parent Topic Info: [{parent}]")
    run.say(OF_PARENT.format("#Broker Name", "#TTL", "#Lite Count", "#LMQ NUM", "#GROUPS"))
    refusal = None
    for name, address in await _ask_all(run, parent):
        try:
            of = await lite.of_parent(run.calls, address, parent)
        except Refused as fault:
            refusal = fault
            _refused(run, name, fault)
            continue
        run.say(OF_PARENT.format(name, of.ttl, of.lite_topic_count, of.lmq_num, ", ".join(of.groups or [])))
    if refusal is not None:
        raise refusal


@command(
    "getLiteTopicInfo",
    "Offsets and subscribers of a lite topic",
    need("l", "liteTopic", "the lite topic"),
    PARENT,
    flag("s", "showClientId", "list the subscribers"),
    waits_for=WAITS_FOR,
)
async def get_lite_topic_info(run: Run) -> None:
    parent, topic = run["p"], run["l"]
    run.say(f"Lite Topic Info: [{parent}] [{topic}] [%LMQ%${parent}${topic}]")
    run.say(OF_TOPIC.format("#Broker Name", "#MinOffset", "#MaxOffset", "#LastUpdate", "#Sharding", "#SubClientCount"))
    refusal = None
    for name, address in await _ask_all(run, parent):
        try:
            of = await lite.of_topic(run.calls, address, parent, topic)
        except Refused as fault:
            refusal = fault
            _refused(run, name, fault)
            continue
        at, members = of.topic_offset, of.subscriber or []
        offsets = (at.min_offset, at.max_offset, when(at.last_update_timestamp)) if at else ("-", "-", "-")
        run.say(OF_TOPIC.format(name, *offsets, truth(of.sharding_to_broker), len(members)))
        for one in members if "s" in run else []:
            run.say(f"{one.client_id} {one.group}")
    if refusal is not None:
        raise refusal


@command(
    "getLiteClientInfo",
    "Lite topics that a client subscribes to",
    need("c", "clientId", "the client"),
    GROUP,
    PARENT,
    flag("s", "showDetail", "list the lite topics"),
    waits_for=WAITS_FOR,
)
async def get_lite_client_info(run: Run) -> None:
    parent, group, client = run["p"], run["g"], run["c"]
    run.say(f"Lite Client Info: [{parent}] [{group}] [{client}]")
    run.say(OF_CLIENT.format("#Broker", "#LiteTopicCount", "#LastAccessTime", "#LastConsumeTime"))
    refusal = None
    for name, address in await _ask_all(run, parent):
        try:
            of = await lite.of_client(run.calls, address, parent, group, client)
        except Refused as fault:
            refusal = fault
            _refused(run, name, fault)
            continue
        times = (when(of.last_access_time), when(of.last_consume_time))
        run.say(OF_CLIENT.format(name, of.lite_topic_count, *times))
        for topic in (of.lite_topic_set or []) if "s" in run else []:
            run.say(topic)
    if refusal is not None:
        raise refusal


@command(
    "getLiteGroupInfo",
    "How far a group is in its lite topics",
    GROUP,
    may("k", "topK", "length of the lists per broker, default 20"),
    may("l", "liteTopic", "only this lite topic"),
    PARENT,
    waits_for=WAITS_FOR,
)
async def get_lite_group_info(run: Run) -> None:
    group, parent = run["g"], run["p"]
    run.say(f"Lite Group Info: [{group}] [{parent}]")
    total, oldest = 0, run.clock.now_ms()
    by_count: list[LiteLagInfo] = []
    by_time: list[LiteLagInfo] = []
    refusal = None
    for name, address in await _ask_all(run, parent):
        try:
            of = await lite.of_group(run.calls, address, group, run.get("l") or None, run.number("k", 20))
        except Refused as fault:
            refusal = fault
            _refused(run, name, fault)
            continue
        total += of.total_lag_count
        oldest = min(oldest, of.earliest_unconsumed_timestamp) if of.earliest_unconsumed_timestamp > 0 else oldest
        by_count += of.lag_count_top_k or []
        by_time += of.lag_timestamp_top_k or []
    run.say(f"Total Lag Count: {total}")
    run.say(f"Min Unconsumed Timestamp: {oldest} ({(run.clock.now_ms() - oldest) // 1000} s ago)")
    run.say("\n------TopK by lag count-----")
    _print_lags(run, sorted(by_count, key=lambda each: -each.lag_count))
    run.say("\n------TopK by lag time------")
    _print_lags(run, sorted(by_time, key=lambda each: each.earliest_unconsumed_timestamp))
    if refusal is not None:
        raise refusal


def _print_lags(run: Run, lags: list[LiteLagInfo]) -> None:
    run.say(LAG.format("NO", "Lite Topic", "Lag Count", "UnconsumedTimestamp"))
    for number, one in enumerate(lags, 1):
        run.say(LAG.format(number, one.lite_topic or "", one.lag_count, one.earliest_unconsumed_timestamp))


@command(
    "triggerLiteDispatch",
    "Let brokers hand out all lite messages that wait for a group",
    may("b", "brokerName", "only this broker"),
    may("c", "clientId", "only for this client"),
    GROUP,
    PARENT,
    waits_for=WAITS_FOR,
)
async def trigger_lite_dispatch(run: Run) -> None:
    group, parent = run["g"], run["p"]
    run.say(f"Group And Topic Info: [{group}] [{parent}]\n")
    refusal = None
    for name, address in await _ask_all(run, parent):
        if run.get("b", name) != name:
            continue
        try:
            await lite.dispatch(run.calls, address, group, run.get("c") or None)
            run.say(f"{name:<30} {'dispatched':<12}")
        except Refused as fault:
            refusal = fault
            run.say(f"{name:<30} {'error':<12}")
    if refusal is not None:
        raise refusal
