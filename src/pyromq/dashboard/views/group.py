"""One group, asked live: where it is in each queue, who has the queue, what would help, and what its members do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from ...admin import groups
from ...admin.progress.group_lag import lag_of
from ...admin.progress.group_state import PROXY, online_in
from ...client.errors import Error
from ...errors import CallFailed, Malformed
from ...model.names import is_retry
from ...protocol.bodies.connections import ConsumerConnection, ConsumerRunningInfo
from ..watch.figures import Unknown
from .asking import ask_one
from .missing import NotThere
from .rows import GroupRow, group_rows

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch

MOST_QUERIED = 32  # members that are asked what they do for one page
STILL_MS = 60_000  # a queue where something waits and nothing was consumed for so long stands still


class GroupTopic(msgspec.Struct, frozen=True, kw_only=True):
    """As `pyromq group lag` tells it."""

    topic: str
    lag: int
    under_way: int
    queues: int
    members: int
    arriving_per_second: float
    consumed_per_second: float
    more_consumers: int
    advice: str


class GroupQueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """`owner`: the member that has the queue. `stands_still`: something waits, and it consumed nothing for a minute."""

    topic: str
    broker: str
    queue: int
    end: int
    committed: int
    lag: int
    under_way: int
    owner: str | Unknown
    consumed_ms: int | None  # when its owner consumed last
    stands_still: bool


class MemberRow(msgspec.Struct, frozen=True, kw_only=True):
    client: str
    address: str
    language: str
    version: int
    brokers: list[str]
    queues: int | Unknown
    cached: int | Unknown


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    filter: str
    kind: str


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    group: GroupRow
    topics: list[GroupTopic]
    queues: list[GroupQueueRow]
    members: list[MemberRow]
    wants: list[SubscriptionRow]
    missing: list[str]


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """What a member does right now."""

    group: str
    client: str
    text: str | Unknown


async def group(cluster: ClusterWatch, name: str) -> GroupPage:
    """Return a group. NotThere if no broker of the snapshot has it."""
    row = _row(cluster, name)
    missing = [f"{one.name}: {one.fault}" for one in cluster.snapshot.silent]
    try:
        found: dict[str, Any] = await lag_of(cluster.calls, cluster.places, name)
        online = await online_in(cluster.calls, cluster.places, name)
    except (Error, CallFailed, Malformed) as fault:
        return GroupPage(group=row, topics=[], queues=[], members=[], wants=[], missing=[*missing, str(fault)])
    doing = await _doing(cluster, name, online)
    return GroupPage(
        group=row,
        topics=[_topic(one) for one in found["topics"]],
        queues=[_queue(one, doing, cluster.now_ms()) for one in sorted(found["queues"], key=_retries_last)],
        members=_members(online, doing),
        wants=_wants(online),
        missing=missing,
    )


async def stack(cluster: ClusterWatch, name: str, client: str) -> Stack:
    """Ask one member what its threads or tasks do. NotThere if it is not online."""
    _row(cluster, name)
    online = await online_in(cluster.calls, cluster.places, name)
    address = {place.name: place.address for place in cluster.places}
    known = {one.client_id for each in online.values() for one in each.connection_set}
    for broker, each in online.items():
        if broker in address and any(one.client_id == client for one in each.connection_set):
            question = groups.running_info(cluster.calls, address[broker], name, client, with_stacks=True)
            info = await ask_one(client, question)
            text = info if isinstance(info, Unknown) else info.jstack or Unknown("this client tells no stack")
            return Stack(group=name, client=client, text=text)
    raise NotThere("member", client, known)


def _row(cluster: ClusterWatch, name: str) -> GroupRow:
    rows = group_rows(cluster.snapshot, system=True)
    row = next((one for one in rows if one.name == name), None)
    if row is None:
        raise NotThere("group", name, [one.name for one in rows if not one.is_system])
    return row


async def _doing(
    cluster: ClusterWatch, name: str, online: dict[str, ConsumerConnection]
) -> dict[str, ConsumerRunningInfo | Unknown]:
    """Return each member's own account of itself, as far as it gives one."""
    address = {place.name: place.address for place in cluster.places}
    by_client = {
        one.client_id: address[broker]
        for broker, each in online.items()
        if broker in address  # members of proxies are not asked
        for one in each.connection_set
    }
    clients = sorted(by_client)[:MOST_QUERIED]
    questions = (groups.running_info(cluster.calls, by_client[client], name, client) for client in clients)
    answers = await asyncio.gather(*(ask_one(client, one) for client, one in zip(clients, questions, strict=True)))
    return dict(zip(clients, answers, strict=True))


def _topic(found: dict[str, Any]) -> GroupTopic:
    return GroupTopic(
        topic=found["topic"],
        lag=found["lag"],
        under_way=found["underWay"],
        queues=found["queues"],
        members=found["members"],
        arriving_per_second=found["arrivingPerSecond"],
        consumed_per_second=found["consumedPerSecond"],
        more_consumers=found["moreConsumers"],
        advice=found["advice"],
    )


def _retries_last(queue: dict[str, Any]) -> tuple[bool, str, str, int]:
    return is_retry(queue["topic"]), queue["topic"], queue["broker"], queue["queue"]


def _queue(found: dict[str, Any], doing: dict[str, ConsumerRunningInfo | Unknown], now_ms: int) -> GroupQueueRow:
    place = found["topic"], found["broker"], found["queue"]
    owner: str | Unknown = Unknown("no member says that it has this queue")
    consumed_ms = None
    for client, info in doing.items():
        if isinstance(info, Unknown):
            continue
        for queue, state in info.mq_table.items():
            if (queue.topic, queue.broker_name, queue.queue_id) == place and not state.droped:
                owner, consumed_ms = client, state.last_consume_timestamp or None
    is_old = consumed_ms is not None and now_ms - consumed_ms >= STILL_MS
    return GroupQueueRow(
        topic=found["topic"],
        broker=found["broker"],
        queue=found["queue"],
        end=found["end"],
        committed=found["committed"],
        lag=found["lag"],
        under_way=found["underWay"],
        owner=owner,
        consumed_ms=consumed_ms,
        stands_still=found["lag"] > 0 and is_old,
    )


def _members(online: dict[str, ConsumerConnection], doing: dict[str, ConsumerRunningInfo | Unknown]) -> list[MemberRow]:
    found: dict[str, MemberRow] = {}
    for broker, each in online.items():
        for one in each.connection_set:
            if one.client_id in found:
                found[one.client_id].brokers.append(broker)
                continue
            why = "a proxy's clients are not asked" if broker.startswith(PROXY) else "too many members: not asked"
            info = doing.get(one.client_id, Unknown(why))
            queues: int | Unknown
            cached: int | Unknown
            if isinstance(info, Unknown):
                queues = cached = info
            else:
                queues = len(info.mq_table) + len(info.mq_pop_table)
                cached = sum(state.cached_msg_count for state in info.mq_table.values())
            found[one.client_id] = MemberRow(
                client=one.client_id,
                address=one.client_addr,
                language=one.language or "",
                version=one.version,
                brokers=[broker],
                queues=queues,
                cached=cached,
            )
    return [found[client] for client in sorted(found)]


def _wants(online: dict[str, ConsumerConnection]) -> list[SubscriptionRow]:
    found = {
        (topic, wanted.sub_string or "*", wanted.expression_type or "TAG")
        for each in online.values()
        for topic, wanted in each.subscription_table.items()
    }
    return [SubscriptionRow(topic=topic, filter=text, kind=kind) for topic, text, kind in sorted(found)]
