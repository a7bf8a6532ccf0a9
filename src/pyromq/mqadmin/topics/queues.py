"""Consume queues as a broker holds them, entry by entry."""

from __future__ import annotations

from ...protocol.bodies.stats import ConsumeQueueData
from ...protocol.headers.admin import CheckRocksdbCqWriteProgress
from ...protocol.headers.pull import QueryConsumeQueue
from ...protocol.requests import RequestCode
from .. import lookup
from ..command import Failed, Run, command
from ..options import TOPIC, may, need
from ..printing import java, pretty, truth

RULE = "=" * 38
MONTH_MS = 30 * 86_400_000
CHECK_FAILED = 3


@command(
    "Entries of a consume queue",
    may("b", "broker", "the broker, host:port; default: the first that has the topic"),
    may("c", "count", "how many, default 10"),
    may("g", "consumer", "with what this group's filter says of each"),
    need("i", "index", "the first entry"),
    need("q", "queue", "the queue"),
    TOPIC,
)
async def query_cq(run: Run) -> None:
    topic, first = run["t"], run.number("i")
    address = run["b"] if "b" in run else (await lookup.brokers_of(run, topic))[0][1]
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
        run.say(f"idx: {place}", _entry_text(entry), RULE)


def _entry_text(entry: ConsumeQueueData) -> str:
    return (
        f"ConsumeQueueData{{physicOffset={entry.physic_offset}, physicSize={entry.physic_size}, "
        f"tagsCode={entry.tags_code}, extendDataJson='{java(entry.extend_data_json)}', "
        f"bitMap='{java(entry.bit_map)}', eval={truth(entry.eval)}, msg='{java(entry.msg)}'}}"
    )


@command(
    "Let brokers compare their consume queues in RocksDB with those in files",
    need("c", "cluster", "the cluster"),
    may("cf", "checkFrom", "messages stored from, ms; default: 30 days ago"),
    need("n", "nameserverAddr", "name servers, host:port;host:port"),
    may("t", "topic", "only this topic"),
    waits_for="consume queues in RocksDB",
)
async def check_rocksdb(run: Run) -> None:
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
