"""Topics: which there are, where, how full; their consume queues as a broker holds them, entry by entry."""

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
from ...protocol.headers.admin import CheckRocksdbCqWriteProgress
from ...protocol.headers.pull import QueryConsumeQueue
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..options import ROUTE_BY, TOPIC
from ..printing import Columns, java, java_object, pretty, when
from .topics import clusters_of

MONTH_MS = 30 * 86_400_000
CHECK_FAILED = 3
RULE = "=" * 38
ENTRY = "ConsumeQueueData{physicOffset, physicSize, tagsCode, 'extendDataJson', 'bitMap', eval, 'msg'}"
STATUS = Columns("{#Broker Name:<32.32}  {#QID:<4}  {#Min Offset:<20}  {#Max Offset:<20}    {#Last Updated}")
ROUTE = Columns("{#ClusterName:<45} {#BrokerName:<32} {#BrokerAddrs:<50} {#ReadQueue:<10} {#WriteQueue:<11} {#Perm:<5}")


@command("Where the queues of a topic are", "[-l list]  as a table", TOPIC)
async def topic_route(run: Run) -> None:
    route = await run.route_of(run["t"])
    if "l" not in run:
        run.print(pretty(route) + "\n")
        return
    run.say(ROUTE.head)
    queues = {each.broker_name: each for each in route.queue_datas}
    for broker in sorted(route.broker_datas, key=lambda each: each.broker_name):
        of = queues.get(broker.broker_name)
        if of is not None:
            place = (broker.cluster or "", broker.broker_name, java(broker.broker_addrs))
            run.say(ROUTE.format(*place, of.read_queue_nums, of.write_queue_nums, of.perm))
    reads = sum(each.read_queue_nums for each in queues.values())
    writes = sum(each.write_queue_nums for each in queues.values())
    run.say("-" * 158)
    run.say(ROUTE.format("Total:", len(queues), "", reads, writes, ""))


@command("Offsets and last time of each queue of a topic", ROUTE_BY, TOPIC)
async def topic_status(run: Run) -> None:
    topic = run["t"]
    rate, table = 0.0, dict[MessageQueue, TopicOffset]()
    for address in (await run.brokers_of(run.get("c") or topic)).values():
        stats = await topics.stats(run.calls, address, topic)
        rate += stats.topic_put_tps
        table |= stats.offset_table
    run.say(STATUS.head)
    for queue, of in sorted(table.items()):
        last = when(of.last_update_timestamp) if of.last_update_timestamp > 0 else ""
        run.say(STATUS.format(queue.broker_name, queue.queue_id, of.min_offset, of.max_offset, last))
    run.say("", f"Topic Put TPS: {rate}")


@command("Clusters that have a topic", TOPIC)
async def topic_cluster_list(run: Run) -> None:
    run.say_all(await clusters_of(run, run["t"]))


@command("All topics", "[-c clusterModel]  with cluster and consumer groups")
async def topic_list(run: Run) -> None:
    names = await topics.names(run.calls)
    if "c" not in run:
        run.say_all(names)
        return
    run.say(f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}")
    for name in names:
        if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        clusters, groups = await _owners(run, name)
        for group in groups or [""]:
            run.say(f"{clusters:<20.20}  {name:<64.64}  {group:<64.64}")


async def _owners(run: Run, topic: str) -> tuple[str, list[str]]:
    """Return the topic's cluster and the groups that consume it; both empty if a server does not answer."""
    try:
        (clusters, *_) = await clusters_of(run, topic) or [""]
        groups: set[str] = set()
        for address in (await run.brokers_of(topic)).values():
            groups.update(await topics.groups(run.calls, address, topic))
    except (Error, Failed):
        return "", []
    return clusters, sorted(groups)


@command("How the queues of a topic would be shared by these consumers", TOPIC)
async def allocate_mq(run: Run) -> None:
    """-i ipList=  addresses of consumers, with commas"""
    queues = route_of(run["t"], await run.route_of(run["t"])).readable
    members = run.words("i")
    shares = {each: msgspec.to_builtins(Average()(each, queues, members)) for each in members}
    run.say(json.dumps({"result": shares}, separators=(",", ":")))


@command("Entries of a consume queue", TOPIC)
async def query_cq(run: Run) -> None:
    """[-b broker=]  the broker, host:port; default: the first that has the topic
    [-c count=]      how many, default 10
    [-g consumer=]   with what this group's filter says of each
    -i index=        the first entry
    -q queue=        the queue"""
    topic, first = run["t"], run.number("i")
    address = run["b"] if "b" in run else next(iter((await run.brokers_of(topic)).values()))
    wanted = QueryConsumeQueue(
        topic=topic,
        queue_id=run.number("q"),
        index=first,
        count=run.number("c", 10),
        consumer_group=run.get("g") or None,
    )
    found = (await run.ask(address, RequestCode.QUERY_CONSUME_QUEUE, wanted)).body
    if found.subscription_data is not None:
        run.print(f"Subscription data: \n{pretty(found.subscription_data)}\n{RULE}\n")
    if found.filter_data is not None:
        run.say("Filter data: ", found.filter_data, RULE)
    run.say("Queue data: ", f"max: {found.max_queue_index}, min: {found.min_queue_index}", RULE)
    for place, entry in enumerate(found.queue_data or (), first):
        run.say(f"idx: {place}", java_object(ENTRY, entry), RULE)


@command(
    "Let brokers compare their consume queues in RocksDB with those in files", waits_for="consume queues in RocksDB"
)
async def check_rocksdb_cq_write_progress(run: Run) -> None:
    """-c cluster=      the cluster
    [-cf checkFrom=]    messages stored from, ms; default: 30 days ago
    -n nameserverAddr=  name servers, host:port;host:port
    [-t topic=]         only this topic"""
    since = run.number("cf", run.clock.now_ms() - MONTH_MS)
    wanted = CheckRocksdbCqWriteProgress(topic=run.get("t"), check_store_time=since)
    faults = []
    for place in await run.cluster(run["c"]):
        if not place.is_master:
            continue
        found = (await run.ask(place.address, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, wanted)).body
        if found.check_status == CHECK_FAILED:
            faults.append(f"{place.name} check error, please check log... errInfo: {java(found.check_result)}")
        else:
            run.say(f"{place.name} check doing, please wait and get the result from log... ")
    if faults:
        raise Failed("; ".join(faults))
