"""Topics, groups, settings and figures of a cluster as JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ...admin import cluster, groups, settings, topics, traffic
from ...client.errors import Error
from ...model.names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, is_system_group
from ...model.wire_text import whole_number
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.topics import TopicConfig
from ...protocol.requests import RequestCode
from ..command import Run, command
from ..files import write_private
from ..options import BROKER, CLUSTER, flag, may, need
from ..parsing import UsageError
from ..printing import pretty_value, truth, version_name
from .clusters import number

FOLDERS = ("rocketmq", "export")  # of /tmp, where others may write too
CLUSTER_NEEDED = need("c", "clusterName", "the cluster")
TO = may("f", "filePath", f"folder for the file, default /tmp/{'/'.join(FOLDERS)}")
# Settings that show a cluster's character.
SHOWN = [
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
]


def _write(run: Run, name: str, content: dict[str, Any]) -> None:
    text = pretty_value(content)
    if "f" in run:
        path = Path(run["f"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", "backslashreplace")
    else:
        path = write_private(Path("/tmp"), FOLDERS, name, text.encode("utf-8", "backslashreplace"))
    run.say(f"export {path} success")


async def _own_topics(run: Run, address: str, *, special: bool = False) -> dict[str, TopicConfig]:
    """Return the topics without the system's, and without retry and dead letter topics unless these are wanted."""
    system = (await run.ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body.topic_list
    left_out = () if special else (RETRY_PREFIX, DLQ_PREFIX)
    found = await topics.configs(run.calls, address)
    return {name: of for name, of in found.items() if name not in system and not name.startswith(left_out)}


async def _own_groups(run: Run, address: str) -> dict[str, SubscriptionGroupConfig]:
    found = await groups.configs(run.calls, address)
    return {name: of for name, of in found.items() if not is_system_group(name)}


@command(
    "Topics and groups as a file",
    BROKER,
    CLUSTER,
    TO,
    flag("g", "subscriptionGroup", "only groups"),
    flag("s", "specialTopic", "with retry and dead letter topics"),
    flag("t", "topic", "only topics"),
)
async def export_metadata(run: Run) -> None:
    all_topics: dict[str, TopicConfig] = {}
    all_groups: dict[str, SubscriptionGroupConfig] = {}
    for address in await run.masters():
        for name, topic in (await _own_topics(run, address, special="s" in run)).items():
            if name in all_topics:  # a topic of several brokers has the queues of all
                topic.read_queue_nums += all_topics[name].read_queue_nums
                topic.write_queue_nums += all_topics[name].write_queue_nums
            all_topics[name] = topic
        for name, group in (await _own_groups(run, address)).items():
            if name in all_groups:
                group.retry_queue_nums += all_groups[name].retry_queue_nums
            all_groups[name] = group
    content: dict[str, Any] = {"exportTime": run.clock.now_ms()}
    if "t" in run or "g" not in run:
        content["topicConfigTable"] = msgspec.to_builtins(all_topics)
    if "g" in run or "t" not in run:
        content["subscriptionGroupTable"] = msgspec.to_builtins(all_groups)
    only = {"t": "topic.json", "g": "subscriptionGroup.json"}
    _write(run, only.get("".join(each for each in "tg" if each in run), "metadata.json"), content)


@command("The settings that matter of all masters as a file", CLUSTER_NEEDED, TO)
async def export_configs(run: Run) -> None:
    places = await run.cluster(run["c"])
    configs = {}
    for place in places:
        if place.is_master:
            found = await settings.of_broker(run.calls, place.address)
            configs[place.name] = {key: found[key] for key in SHOWN if key in found}
    slaves = len([place for place in places if not place.is_master])
    scale = {"namesrvSize": len(run.name_servers), "slaveBrokerSize": slaves, "masterBrokerSize": len(configs)}
    _write(run, "configs.json", {"clusterScale": scale, "brokerConfigs": configs})


@command("Figures of all masters as a file", CLUSTER_NEEDED, TO)
async def export_metrics(run: Run) -> None:
    rates: dict[str, float] = {}
    counts: dict[str, int] = {}
    reports = {}
    for place in await run.cluster(run["c"]):
        if not place.is_master:
            continue
        quota = await _quota(run, place.address)
        for name, rate in quota["tps"].items():
            rates[_total(name)] = rates.get(_total(name), 0.0) + rate
        for name, count in quota["oneDayNum"].items():
            counts[name] = counts.get(name, 0) + count
        reports[place.name] = {
            "runtimeVersion": await _versions(run, place.address),
            "runtimeQuota": quota,
            "runtimeEnv": await _environment(run, place.address),
        }
    _write(
        run,
        "metrics.json",
        {"totalData": {"totalOneDayNum": counts, "totalTps": rates}, "evaluateReport": reports},
    )


def _total(name: str) -> str:
    return "total" + name[0].upper() + name[1:]


async def _quota(run: Run, address: str) -> dict[str, Any]:
    of = await cluster.runtime(run.calls, address)
    parked = {}
    for kind, topic in (("trans", HALF_TOPIC), ("schedule", SCHEDULE_TOPIC)):
        parked[kind] = await traffic.into_topic(run.calls, [address], topic)
    rates = {f"{kind}InTps": into.per_second for kind, into in parked.items()}
    counts = {f"{kind}OneDayInNum": into.of_day for kind, into in parked.items()}
    for way, word in (("In", "Put"), ("Out", "Get")):
        since, until = (whole_number(of.get(f"msg{word}Total{day}Morning")) or 0 for day in ("Yesterday", "Today"))
        counts[f"normalOneDay{way}Num"] = until - since
        rates[f"normal{way}Tps"] = number(of, "putTps" if way == "In" else "getTransferredTps")
    ratios = ("commitLogDiskRatio", "consumeQueueDiskRatio")
    return {
        "diskRatio": {key: of[key] for key in ratios if key in of},
        "topicSize": len(await _own_topics(run, address)),
        "tps": rates,
        "groupSize": len(await _own_groups(run, address)),
        "oneDayNum": counts,
        "messageAverageSize": of.get("putMessageAverageSize"),
    }


async def _versions(run: Run, address: str) -> dict[str, Any]:
    clients: set[str] = set()
    for group in await _own_groups(run, address):
        found = await groups.connections(run.calls, address, group)
        for one in found.connection_set if found else []:
            clients.add(f"{one.language}%{version_name(one.version)}")
    version = (await cluster.runtime(run.calls, address)).get("brokerVersionDesc")
    return {"rocketmqVersion": version, "clientInfo": sorted(clients)}


async def _environment(run: Run, address: str) -> dict[str, Any]:
    """Return the number of processors: a client thread for each is the default."""
    found = await settings.of_broker(run.calls, address)
    threads = found.get("clientCallbackExecutorThreads")
    return {"cpuNum": threads} if threads is not None else {}


@command(
    "Let brokers move the records of pops from RocksDB back to files",
    may("b", "brokerAddr", "the broker, host:port"),
    may("c", "clusterName", "the cluster: masters and slaves"),
    may("d", "dryRun", "true: only say which brokers it would be"),
    waits_for="pop records in RocksDB",
)
async def export_pop_record(run: Run) -> None:
    if "b" in run:
        name = (await settings.of_broker(run.calls, run["b"])).get("brokerName", "")
        places = [(name, run["b"])]
    elif "c" in run:
        places = [(place.name, place.address) for place in await run.cluster(run["c"])]
    else:
        raise UsageError("say which: -b with a broker's address, or -c with a cluster's name")
    dry = run.truth("d")
    for name, address in places:
        where = f"brokerName={name}, brokerAddr={address}, dryRun={truth(dry)}"
        if not dry:
            try:
                await run.ask(address, RequestCode.POP_ROLLBACK)
            except Error:
                run.say(f"Export broker records error, {where}")
                raise
        run.say(f"Export broker records, {where}")
