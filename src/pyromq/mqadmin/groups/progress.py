"""How far consumer groups are, and how much goes in and out of topics by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from ...admin import groups, offsets, topics
from ...client.errors import Error
from ...model.client_info import version_name
from ...model.codes import ResponseCode
from ...model.group import ConsumeType, MessageModel
from ...model.names import DLQ_PREFIX, RETRY_PREFIX
from ...protocol.bodies.connections import ConsumerConnection
from ...protocol.bodies.keyed import ByQueue, MessageQueue
from ...protocol.bodies.offsets import ConsumeStats, OffsetWrapper
from ...protocol.headers.admin import GetBrokerConsumeStats
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command, failed
from ..options import ROUTE_BY
from ..printing import Columns, queues_in_order, when_s

_PLACE = "{#Topic:<64.64}  {#Broker Name:<32.32}  {#QID:<4}  {#Broker Offset:<20}  {#Consumer Offset:<20}  "
QUEUE = Columns(_PLACE + "{#Diff:<20} {#Inflight:<20}")
QUEUE_AND_MEMBER = Columns(_PLACE + "{#Client IP:<20} {#Diff:<20} {#Inflight:<20}")
GROUP = Columns("{#Group:<64.64}  {#Count:<6}  {#Version:<24} {#Type:<5}  {#Model:<14}  {#TPS:<7}  {#Diff Total}")
OF_BROKER = Columns(
    "{#Topic:<64.64}  {#Group:<64}  {#Broker Name:<32.32}  {#QID:<4}  {#Broker Offset:<20}  {#Consumer Offset:<20}  "
    "{#Diff:<20}  {#LastTime}"
)

TRAFFIC = Columns(
    "{#Topic:<64.64}  {#Consumer Group:<64.64} {#Accumulation:>12} {#InTPS:>11} {#OutTPS:>11} "
    "{#InMsg24Hour:>14} {#OutMsg24Hour:>14}"
)


async def progress_of(run: Run, group: str, topic: str | None = None, cluster: str = "") -> ConsumeStats:
    """Return the progress from all brokers that know the group. Fail if it consumed nothing and nobody is online."""
    table: ByQueue[OffsetWrapper] = ByQueue()
    rate, stored = 0.0, Counter[str]()
    brokers = await run.brokers_of_group(group, cluster, topic or "")
    for address in brokers:
        stats = await offsets.progress(run.calls, address, group, topic)
        table.update(stats.offset_table)
        rate += stats.consume_tps
        stored.update(stats.stored_in_flight or {})
    if not table:
        await _explain_nothing(run, group, brokers)
    return ConsumeStats(consume_tps=rate, offset_table=table, stored_in_flight=dict(stored) or None)


async def _explain_nothing(run: Run, group: str, addresses: Iterable[str]) -> None:
    nothing = "Not found the consumer group consume stats, because return offset table is empty, "
    members = await members_of(run, group, addresses)
    if members is None:
        raise failed(ResponseCode.CONSUMER_NOT_ONLINE, nothing + "maybe the consumer not online")
    if members.message_model is MessageModel.BROADCASTING:
        raise failed(ResponseCode.BROADCAST_CONSUMPTION, nothing + "the consumer is under the broadcast mode")


async def members_of(run: Run, group: str, addresses: Iterable[str]) -> ConsumerConnection | None:
    """Return the members from the first broker that knows any: members are connected to all brokers."""
    for address in addresses:
        found = await groups.connections(run.calls, address, group)
        if found is not None:
            return found
    return None


@command("How far a group is in each queue; without a group, an overview of all", ROUTE_BY)
async def consumer_progress(run: Run) -> None:
    """[-g groupName=]  the group
    [-s showClientIP=]  true: which member has each queue
    [-t topicName=]     only this topic"""
    if "g" in run:
        await _show_group(run, run["g"])
    else:
        await _show_all(run)


async def _show_group(run: Run, group: str) -> None:
    stats = await progress_of(run, group, run.get("t") or None, run.get("c"))
    with_members = run.truth("s")
    holders = await _holders(run, group) if with_members else {}
    columns = QUEUE_AND_MEMBER if with_members else QUEUE
    run.say(columns.head + "#LastTime")
    for queue, of in queues_in_order(stats.offset_table):
        row = [queue.topic, queue.broker_name, queue.queue_id, of.broker_offset, of.consumer_offset]
        if with_members:
            row.append(holders.get(queue, "N/A"))
        last = when_s(of.last_timestamp) if of.last_timestamp else "N/A"
        run.say(columns.format(*row, of.difference, of.in_flight) + f" {last}")
    run.say("", f"Consume TPS: {stats.consume_tps:.2f}", f"Consume Diff Total: {stats.difference}")
    run.say(f"Consume Inflight Total: {stats.in_flight}")


async def _holders(run: Run, group: str) -> dict[MessageQueue, str]:
    """Return, by queue, the address part of the client id of the member that has it."""
    brokers = await run.brokers_of_group(group)
    members = await members_of(run, group, brokers)
    holders: dict[MessageQueue, str] = {}
    for one in members.connection_set if members else []:
        try:
            info = await groups.running_info(run.calls, brokers[0], group, one.client_id)
        except Error as fault:
            run.warn(f"{one.client_id} does not tell of itself: {fault}")
            continue
        holders |= {queue: one.client_id.partition("@")[0] for queue in info.mq_table}
    return holders


async def _show_all(run: Run) -> None:
    run.say(GROUP.head)
    for topic in await topics.names(run.calls):
        if not topic.startswith(RETRY_PREFIX):
            continue
        group, stats, members = topic.removeprefix(RETRY_PREFIX), ConsumeStats(), None
        with suppress(Error, Failed):
            stats = await progress_of(run, group)
        with suppress(Error, Failed):
            members = await members_of(run, group, await run.brokers_of_group(group))
        run.say(GROUP.format(group, *_summary(members), int(stats.consume_tps), stats.difference))


def _summary(members: ConsumerConnection | None) -> tuple[int, str, str, str]:
    if members is None or not members.connection_set:
        return 0, "OFFLINE", "", ""
    is_pull = members.consume_type is ConsumeType.ACTIVELY
    oldest = min(one.version for one in members.connection_set)
    model = members.message_model.value if members.message_model and not is_pull else ""
    return len(members.connection_set), version_name(oldest), "PULL" if is_pull else "PUSH", model


@command("How far all groups of a broker are")
async def broker_consume_stats(run: Run) -> None:
    """-b brokerAddr=    the broker, host:port
    [-l level=]          only queues that are more than this behind
    [-o order=]          true: only orderly groups
    [-t timeoutMillis=]  how long to wait for the answer, default 50000"""
    calls = run.calls
    calls.timeout_s = run.number("t", 50_000) / 1000
    header = GetBrokerConsumeStats(is_order=run.truth("o"))
    found = (await calls.ask(run["b"], RequestCode.GET_BROKER_CONSUME_STATS, header)).body
    run.say(OF_BROKER.head)
    least = run.number("l", 0)
    for by_group in found.consume_stats_list:
        for group, parts in by_group.items():
            for stats in parts:
                _print_stats(run, group, stats, least)
    run.say("", f"Diff Total: {found.total_diff}")


def _print_stats(run: Run, group: str, stats: ConsumeStats, least: int) -> None:
    for queue, of in queues_in_order(stats.offset_table):
        if of.difference >= least and of.last_timestamp > 0:  # nothing was consumed of the others yet
            row = (of.broker_offset, of.consumer_offset, of.difference, when_s(of.last_timestamp))
            run.say(OF_BROKER.format(queue.topic, group, queue.broker_name, queue.queue_id, *row))


@command("Messages in and out of topics, by consumer group")
async def stats_all(run: Run) -> None:
    """[-a activeTopic]  only those with traffic
    [-t topic=]          only this topic"""
    run.say(TRAFFIC.head)
    for topic in await topics.names(run.calls):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or run.get("t", topic) != topic:
            continue
        try:
            await _topic(run, topic)
        except (Error, Failed) as fault:
            run.warn(f"{topic}: {fault}")


async def _topic(run: Run, topic: str) -> None:
    addresses = list((await run.brokers_of(topic)).values())
    consumers: set[str] = set()
    for address in addresses:
        consumers.update(await topics.groups(run.calls, address, topic))
    into = await topics.into_topic(run.calls, addresses, topic)
    for group in sorted(consumers):
        out = await topics.to_group(run.calls, addresses, topic, group)
        if "a" not in run or into.of_day or out.of_day:
            rates = (f"{into.per_second:.2f}", f"{out.per_second:.2f}", into.of_day, out.of_day)
            run.say(TRAFFIC.format(topic, group, await _lag(run, group, topic), *rates))
    if not consumers and ("a" not in run or into.of_day):
        run.say(TRAFFIC.format(topic, "", 0, f"{into.per_second:.2f}", "", into.of_day, "NO_CONSUMER"))


async def _lag(run: Run, group: str, topic: str) -> int:
    try:
        stats = await progress_of(run, group, topic)
    except (Error, Failed):  # it has no retry topic: a group of the system
        return 0
    return max(0, stats.difference)
