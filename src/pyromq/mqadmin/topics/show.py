"""Topics: which there are, where, how full."""

from __future__ import annotations

import json

import msgspec

from ...admin import topics
from ...client.core.allocation import Average
from ...client.core.routing import route_of
from ...client.errors import Error
from ...model.names import DLQ_PREFIX, RETRY_PREFIX
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.bodies.offsets import TopicOffset
from ...protocol.bodies.route import TopicRouteData
from .. import lookup
from ..command import Failed, Run, command
from ..options import ROUTE_BY, TOPIC, flag, need
from ..printing import Columns, cut, java_map, pretty, when
from .topics import clusters_of

STATUS = Columns("{#Broker Name:<32}  {#QID:<4}  {#Min Offset:<20}  {#Max Offset:<20}    {#Last Updated}")
ROUTE = Columns("{#ClusterName:<45} {#BrokerName:<32} {#BrokerAddrs:<50} {#ReadQueue:<10} {#WriteQueue:<11} {#Perm:<5}")


@command("Where the queues of a topic are", flag("l", "list", "as a table"), TOPIC)
async def topic_route(run: Run) -> None:
    route = await lookup.route_of(run, run["t"])
    if "l" not in run:
        run.print(pretty(route) + "\n")
        return
    run.say(ROUTE.head)
    _print_route(run, route)


def _print_route(run: Run, route: TopicRouteData) -> None:
    queues = {each.broker_name: each for each in route.queue_datas}
    for broker in sorted(route.broker_datas, key=lambda each: each.broker_name):
        of = queues.get(broker.broker_name)
        if of is not None:
            addresses = java_map(broker.broker_addrs)
            place = (broker.cluster or "", broker.broker_name, addresses)
            run.say(ROUTE.format(*place, of.read_queue_nums, of.write_queue_nums, of.perm))
    reads = sum(each.read_queue_nums for each in queues.values())
    writes = sum(each.write_queue_nums for each in queues.values())
    run.say("-" * 158)
    run.say(ROUTE.format("Total:", len(queues), "", reads, writes, ""))


@command("Offsets and last time of each queue of a topic", ROUTE_BY, TOPIC)
async def topic_status(run: Run) -> None:
    topic = run["t"]
    rate, table = 0.0, dict[MessageQueue, TopicOffset]()
    for _, address in await lookup.brokers_of(run, run.get("c") or topic):
        stats = await topics.stats(run.calls, address, topic)
        rate += stats.topic_put_tps
        table |= stats.offset_table
    run.say(STATUS.head)
    for queue in sorted(table):
        of = table[queue]
        last = when(of.last_update_timestamp) if of.last_update_timestamp > 0 else ""
        run.say(STATUS.format(cut(queue.broker_name, 32), queue.queue_id, of.min_offset, of.max_offset, last))
    run.say()
    run.say(f"Topic Put TPS: {rate}")


@command("Clusters that have a topic", TOPIC)
async def topic_cluster_list(run: Run) -> None:
    for name in await clusters_of(run, run["t"]):
        run.say(name)


@command("All topics", flag("c", "clusterModel", "with cluster and consumer groups"))
async def topic_list(run: Run) -> None:
    names = await topics.names(run.calls)
    if "c" not in run:
        for name in names:
            run.say(name)
        return
    run.say(f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}")
    for name in names:
        if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        clusters, groups = await _owners(run, name)
        for group in groups or [""]:
            run.say(f"{cut(clusters, 20):<20}  {cut(name, 64):<64}  {cut(group, 64):<64}")


async def _owners(run: Run, topic: str) -> tuple[str, list[str]]:
    """Return the topic's cluster and the groups that consume it; both empty if a server does not answer."""
    try:
        (clusters, *_) = await clusters_of(run, topic) or [""]
        groups: set[str] = set()
        for _, address in await lookup.brokers_of(run, topic):
            groups.update(await topics.groups(run.calls, address, topic))
    except (Error, Failed):
        return "", []
    return clusters, sorted(groups)


@command(
    "How the queues of a topic would be shared by these consumers",
    need("i", "ipList", "addresses of consumers, with commas"),
    TOPIC,
)
async def allocate(run: Run) -> None:
    queues = route_of(run["t"], await lookup.route_of(run, run["t"])).readable
    members = [each.strip() for each in run["i"].split(",") if each.strip()]
    shares = {each: msgspec.to_builtins(Average()(each, queues, members)) for each in members}
    run.say(json.dumps({"result": shares}, separators=(",", ":")))
