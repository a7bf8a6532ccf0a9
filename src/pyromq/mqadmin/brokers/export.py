"""Topics, groups, settings and figures of a cluster as JSON files; a compaction log of this machine; RocksDB's files,
which we do not read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from ...admin import cluster, groups, settings, topics
from ...client.errors import Error
from ...model.client_info import version_name
from ...model.names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, is_system_group
from ...model.wire_text import whole_number
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.admin import ExportRocksdbConfig
from ...protocol.messages import UnreadableMessage, read_record
from ...protocol.record import RecordError, decode_record
from ...protocol.requests import RequestCode
from ..command import Failed, NotServed, Run, command
from ..files import write_private
from ..messages.text import line_of
from ..options import BROKER, CLUSTER, UsageError
from ..printing import java, pretty_value
from .clusters import number

FOLDERS = ("rocketmq", "export")  # of /tmp, where others may write too
CLUSTER_NEEDED = "-c clusterName=  the cluster"
TO = f"[-f filePath=]  folder for the file, default /tmp/{'/'.join(FOLDERS)}"
# Settings that show a cluster's character.
SHOWN = """
    brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums flushDiskType maxMessageSize
    messageDelayLevel msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS autoCreateTopicEnable
    autoCreateSubscriptionGroup
"""


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


@command("Topics and groups as a file", BROKER, CLUSTER, TO)
async def export_metadata(run: Run) -> None:
    """[-g subscriptionGroup]  only groups
    [-s specialTopic]          with retry and dead letter topics
    [-t topic]                 only topics"""
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
    places, configs = await run.cluster(run["c"]), {}
    for place in places:
        if place.is_master:
            found = await _settings(run, place.address)
            configs[place.name] = {key: found[key] for key in SHOWN.split() if key in found}
    slaves = sum(not place.is_master for place in places)
    scale = {"namesrvSize": len(run.name_servers), "slaveBrokerSize": slaves, "masterBrokerSize": len(configs)}
    _write(run, "configs.json", {"clusterScale": scale, "brokerConfigs": configs})


@command("Figures of all masters as a file", CLUSTER_NEEDED, TO)
async def export_metrics(run: Run) -> None:
    rates, counts, reports = Counter[str](), Counter[str](), {}
    for place in await run.cluster(run["c"]):
        if not place.is_master:
            continue
        quota = await _quota(run, place.address)
        rates.update({f"total{name[0].upper()}{name[1:]}": rate for name, rate in quota["tps"].items()})
        counts.update(quota["oneDayNum"])
        reports[place.name] = {
            "runtimeVersion": await _versions(run, place.address),
            "runtimeQuota": quota,
            "runtimeEnv": await _environment(run, place.address),
        }
    totals = {"totalOneDayNum": counts, "totalTps": rates}
    _write(run, "metrics.json", {"totalData": totals, "evaluateReport": reports})


async def _quota(run: Run, address: str) -> dict[str, Any]:
    of = await cluster.runtime(run.calls, address)
    parked = {
        kind: await topics.into_topic(run.calls, [address], topic)
        for kind, topic in (("trans", HALF_TOPIC), ("schedule", SCHEDULE_TOPIC))
    }
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
        clients |= {f"{one.language}%{version_name(one.version)}" for one in (found.connection_set if found else [])}
    version = (await cluster.runtime(run.calls, address)).get("brokerVersionDesc")
    return {"rocketmqVersion": version, "clientInfo": sorted(clients)}


async def _environment(run: Run, address: str) -> dict[str, Any]:
    """Return the number of processors: a client thread for each is the default."""
    threads = (await _settings(run, address)).get("clientCallbackExecutorThreads")
    return {"cpuNum": threads} if threads is not None else {}


async def _settings(run: Run, address: str) -> dict[str, str]:
    return await settings.fetch(run.calls, address, RequestCode.GET_BROKER_CONFIG)


@command("Let brokers move the records of pops from RocksDB back to files")
async def export_pop_record(run: Run) -> None:
    """[-b brokerAddr=]  the broker, host:port
    [-c clusterName=]    the cluster: masters and slaves
    [-d dryRun=]         true: only say which brokers it would be"""
    if "b" in run:
        name = (await _settings(run, run["b"])).get("brokerName", "")
        places = [(name, run["b"])]
    elif "c" in run:
        places = [(place.name, place.address) for place in await run.cluster(run["c"])]
    else:
        raise UsageError("say which: -b with a broker's address, or -c with a cluster's name")
    dry = run.truth("d")
    for name, address in places:
        where = f"brokerName={name}, brokerAddr={address}, dryRun={java(dry)}"
        if not dry:
            try:
                await run.ask(address, RequestCode.POP_ROLLBACK)
            except Error:
                run.say(f"Export broker records error, {where}")
                raise
        run.say(f"Export broker records, {where}")


KINDS = ("topics", "subscriptionGroups", "consumerOffsets")
ROCKSDB = "RocksDB's files are not read here. Apache's brokers export them: "


def _content(name: str) -> bytes:
    path = Path(name)
    if not path.exists():
        raise Failed(f"file {name} not exist.")
    if path.is_dir():
        raise Failed(f"file {name} is a directory.")
    return path.read_bytes()


@command("Messages of a compaction log file", "[-f file=]  the file")
async def dump_compaction_log(run: Run) -> None:
    if "f" not in run:
        raise UsageError("miss dump log file name: -f")
    data, at = _content(run["f"]), 0
    while at < len(data):
        try:
            record = decode_record(data, at)
        except RecordError as fault:
            if any(data[at:]):  # behind the last message the file is empty
                run.warn(f"ends at byte {at}: {fault}")
            return
        for message in read_record(data[at : at + record.size]):
            if isinstance(message, UnreadableMessage):
                run.warn(f"the record at byte {at} cannot be read: {message.fault}")
            run.say(line_of(message, "null"))
        at += record.size


@command("Topics or groups out of RocksDB's files on this machine", waits_for="a RocksDB store")
async def export_metadata_in_rocksdb(run: Run) -> None:
    """[-j jsonEnable=]  true: as JSON
    -p path=             folder of the settings
    -t configType=       topics or subscriptionGroups"""
    raise NotServed(f"{ROCKSDB}mqadmin rocksDBConfigToJson -b BROKER -t {run['t']}")


@command(
    "Let brokers write their tables in RocksDB as JSON files",
    f"[-t configType=]  {', '.join(KINDS)}; default: all",
    waits_for="a RocksDB store",
)
async def rocksdb_config_to_json(run: Run) -> None:
    """[-b brokerAddr=]   the broker, host:port
    [-c cluster=]         the cluster: masters and slaves
    [-e exportFile=]      file for what is read on this machine, with -p
    [-j jsonEnable=]      false: a line per entry, with -p
    [-n nameserverAddr=]  name servers, host:port;host:port
    [-p configPath=]      folder of RocksDB's files on this machine"""
    kinds = [each.strip() for each in run.get("t", ";".join(KINDS)).replace(",", ";").split(";") if each.strip()]
    if wrong := [each for each in kinds if each not in KINDS]:
        raise UsageError(f"Invalid configType: {wrong[0]} please input {'/'.join(KINDS)}")
    if "c" in run:
        run.say("Use [rpc mode] call all brokers in cluster to export to json file ")
        addresses = [place.address for place in await run.cluster(run["c"])]
    elif "b" in run:
        run.say("Use [rpc mode] call broker to export to json file ")
        addresses = [run["b"]]
    elif "p" in run:
        raise NotServed(f"{ROCKSDB}mqadmin rocksDBConfigToJson -b BROKER -t {';'.join(kinds)}")
    else:
        raise UsageError("say whose: -b with a broker's address, or -c with a cluster's name")
    wanted = ExportRocksdbConfig(config_type="".join(f"{each};" for each in kinds))
    for address in addresses:
        await run.ask(address, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, wanted)
    run.say("broker export done.")
