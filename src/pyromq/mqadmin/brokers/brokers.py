"""Brokers: how they are, their settings, what they throw away, how they limit cold reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...admin import cluster, settings
from ...client.errors import Error
from ...protocol.headers.admin import SetCommitLogReadMode, SwitchTimerEngine
from ...protocol.headers.replication import ResetMasterFlushOffset
from ...protocol.requests import RequestCode
from ...protocol.row import Row
from ..command import Failed, Named, Run, command
from ..options import BROKER, BROKER_OR_CLUSTER, CLUSTER, UsageError
from ..printing import java, pretty_value, setting_lines, when

OF_CLUSTER = "[-c cluster=]  the cluster: all its masters; neither -b nor -c: every broker"


@command("What brokers count and measure", BROKER_OR_CLUSTER)
async def broker_status(run: Run) -> None:
    for address in await run.brokers():
        try:
            found = await cluster.runtime(run.calls, address)
        except Error as fault:
            if "b" in run:
                raise
            run.warn(str(fault))
            continue
        whose = "" if "b" in run else f"{address:<24} "
        run.say_all(f"{whose}{key:<32}: {value}" for key, value in sorted(found.items()))


async def broker_or_all(run: Run) -> list[tuple[str, str]]:
    """Return address and heading of the broker of `-b`, or of the cluster of `-c`, slaves behind their master."""
    if "c" not in run or "b" in run:
        return [(address, f"============{address}============") for address in await run.brokers()]
    found, places = [], await run.cluster(run["c"])
    masters = {place.name: place.address for place in places if place.is_master}
    for place in places:
        master = masters.get(place.name, "NO_MASTER")
        slave = f"============My Master: {master}=====Slave: {place.address}============"
        found.append((place.address, f"============Master: {master}============" if place.is_master else slave))
    return found


@command("Settings of brokers", BROKER_OR_CLUSTER)
async def get_broker_config(run: Run) -> None:
    for address, heading in await broker_or_all(run):
        found = await settings.fetch(run.calls, address, RequestCode.GET_BROKER_CONFIG)
        run.say(heading, *setting_lines(found), "")


async def show_settings(run: Run, addresses: Iterable[str], row: Row[None, None, Any, bytes]) -> None:
    for address in addresses:
        found = await settings.fetch(run.calls, address, row)
        run.say(f"============{address}============", *setting_lines(found))


async def change_setting(run: Run, what: str, addresses: Sequence[str], row: Row[None, bytes, None, None]) -> None:
    """Set the key of `-k` to the value of `-v` on all these servers."""
    for address in addresses:
        await settings.change(run.calls, address, row, {run["k"]: run["v"]})
    run.say(f"update {what} config success!{java(addresses)}", f"{run['k']} : {run['v']}")


@command("Change a setting of running brokers", BROKER, CLUSTER)
async def update_broker_config(run: Run) -> None:
    """[-a updateAllBroker=]  with -c: true for its slaves too
    -k key=                   the setting, by Java's name
    -v value=                 its new value"""
    pair = {run["k"]: run["v"]}
    addresses = await (run.brokers() if run.truth("a") else run.masters())
    faults = []
    for address in addresses:
        try:
            await settings.change(run.calls, address, RequestCode.UPDATE_BROKER_CONFIG, pair)
        except Error as fault:
            if len(addresses) == 1:
                raise
            faults.append(str(fault))
            continue
        run.say(f"update broker config success, {address}")
    if faults:
        raise Failed("; ".join(faults))


def _cleaning(text: str, row: Row[None, None, None, None]) -> Named:
    """Return a command that lets one broker, a cluster's masters, or all brokers clean up."""

    async def clean(run: Run) -> None:
        named = "b" in run or "c" in run
        addresses = await run.masters() if named else [place.address for place in await cluster.masters(run.calls)]
        for address in addresses:
            await run.ask(address, row)
        run.say("success")

    return command(text, BROKER, OF_CLUSTER)(clean)


clean_expired_cq = _cleaning("Let brokers delete expired consume queues", RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
clean_unused_topic = _cleaning(
    "Let brokers delete consume queues of topics that are gone", RequestCode.CLEAN_UNUSED_TOPIC
)
delete_expired_commit_log = _cleaning(
    "Let brokers delete expired commit log files", RequestCode.DELETE_EXPIRED_COMMITLOG
)

ENGINES = {"F": "FILE_TIME_WHEEL", "R": "ROCKSDB_TIMELINE"}


@command("What brokers keep timer messages in", BROKER_OR_CLUSTER, "-e engineType=  F: time wheel in files, R: RocksDB")
async def switch_timer_engine(run: Run) -> None:
    engine = run["e"]
    if engine not in ENGINES:
        raise UsageError(f"-e {engine}: F (time wheel in files) or R (RocksDB)")
    said = f"switchTimerEngine to {ENGINES[engine]} success, {{}}"
    header = SwitchTimerEngine(engine_type=engine)
    await run.ask_each(await run.masters(), said, RequestCode.SWITCH_TIMER_ENGINE, header)


@command("Set what a slave takes for the flushed position of its master")
async def reset_master_flush_offset(run: Run) -> None:
    """[-b brokerAddr=]  the slave, host:port
    [-o offset=]         the position"""
    if "b" not in run or "o" not in run:
        raise UsageError("-b with the slave's address and -o with the position are needed")
    header = ResetMasterFlushOffset(master_flush_offset=run.number("o"))
    await run.ask(run["b"], RequestCode.RESET_MASTER_FLUSH_OFFSET, header)
    run.say(f"reset master flush offset to {run.number('o')} success")


GROUP = "-g consumerGroup=  the group"
SHOWN = ("configTable", "cgColdReadThreshold", "globalColdReadThreshold", "globalAcc")


@command("Cold reads: who reads how much, and the limits", BROKER, CLUSTER)
async def get_cold_data_flow_ctr_info(run: Run) -> None:
    for address, heading in await broker_or_all(run):
        found = msgspec.to_builtins((await run.ask(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)).body)
        runtime = {
            group: {
                "coldAcc": of["coldAcc"],
                "lastColdReadTimeFormat": when(of["lastColdReadTimeMills"]),
                "createTimeFormat": when(of["createTimeMills"]),
            }
            for group, of in found["runtimeTable"].items()
        }
        run.say(f" {heading}")
        shown = {"runtimeTable": runtime} | {name: found[name] for name in SHOWN}
        run.print(pretty_value(shown) + "\n")


@command("Limit the cold reads of a group", BROKER, CLUSTER, GROUP, "-v threshold=  bytes per second")
async def update_cold_data_flow_ctr_group_config(run: Run) -> None:
    limit = {run["g"]: str(run.number("v"))}
    for address in await run.masters():
        await settings.change(run.calls, address, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, limit)
        run.say(f"updateColdDataFlowCtrGroupConfig success, {address}")


@command("Take the limit of a group away", BROKER, CLUSTER, GROUP)
async def remove_cold_data_flow_ctr_group_config(run: Run) -> None:
    said, row = "remove broker cold read threshold success, {}", RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG
    await run.ask_each(await run.masters(), said, row, body=run["g"].encode())


@command("How the system reads commit log files ahead", BROKER, CLUSTER)
async def set_commit_log_read_ahead_mode(run: Run) -> None:
    """-m commitLogReadAheadMode=  0 as usual, 1 not at all: reads are at random places"""
    mode = run["m"]
    if mode not in ("0", "1"):
        raise UsageError(f"-m {mode}: 0 (as usual) or 1 (random places)")
    for address, heading in await broker_or_all(run):
        answer = await run.ask(address, RequestCode.SET_COMMITLOG_READ_MODE, SetCommitLogReadMode(read_ahead_mode=mode))
        said = answer.remark or f"set commitlog readahead mode success, mode: {mode}"
        run.say(f" {heading}", f"commitLog set readAhead mode rstStr{said}")
