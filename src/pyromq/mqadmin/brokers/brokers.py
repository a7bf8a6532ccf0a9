"""Brokers: how they are, their settings, what they throw away."""

from __future__ import annotations

from ...admin import cluster, settings
from ...client.errors import Error
from ...protocol.headers.admin import SwitchTimerEngine
from ...protocol.headers.replication import ResetMasterFlushOffset
from ...protocol.requests import RequestCode
from ...protocol.row import Row
from ..command import Failed, Named, Run, command
from ..options import BROKER, BROKER_OR_CLUSTER, CLUSTER, may, need
from ..parsing import UsageError
from ..printing import setting_lines

OF_CLUSTER = may("c", "cluster", "the cluster: all its masters; neither -b nor -c: every broker")


@command("What brokers count and measure", BROKER_OR_CLUSTER)
async def broker_status(run: Run) -> None:
    if "b" in run:
        for key, value in sorted((await cluster.runtime(run.calls, run["b"])).items()):
            run.say(f"{key:<32}: {value}")
        return
    for place in await run.cluster(run["c"]):
        try:
            found = await cluster.runtime(run.calls, place.address)
        except Error as fault:
            run.warn(str(fault))
            continue
        for key, value in sorted(found.items()):
            run.say(f"{place.address:<24} {key:<32}: {value}")


def titled(places: list[cluster.BrokerPlace]) -> list[tuple[str, str]]:
    """Return address and heading of each broker of a cluster, slaves behind their master."""
    found = []
    for name in sorted({place.name for place in places}):
        members = [place for place in places if place.name == name]
        master = next((place.address for place in members if place.is_master), "NO_MASTER")
        for place in members:
            slave = f"============My Master: {master}=====Slave: {place.address}============"
            heading = f"============Master: {master}============" if place.is_master else slave
            found.append((place.address, heading))
    return found


async def broker_or_all(run: Run) -> list[tuple[str, str]]:
    """Return address and heading of the broker of `-b`, or of the cluster of `-c` with its slaves."""
    if "b" in run:
        return [(run["b"], f"============{run['b']}============")]
    if "c" in run:
        return titled(await run.cluster(run["c"]))
    raise UsageError("say which: -b with a broker's address, or -c with a cluster's name")


@command("Settings of brokers", BROKER_OR_CLUSTER)
async def get_broker_config(run: Run) -> None:
    for address, heading in await broker_or_all(run):
        found = await settings.of_broker(run.calls, address)
        run.say(heading, *setting_lines(found), "")


@command(
    "Change a setting of running brokers",
    may("a", "updateAllBroker", "with -c: true for its slaves too"),
    BROKER,
    CLUSTER,
    need("k", "key", "the setting, by Java's name"),
    need("v", "value", "its new value"),
)
async def update_broker_config(run: Run) -> None:
    pair = {run["k"]: run["v"]}
    if "c" in run and "b" not in run and run.truth("a"):
        addresses = [place.address for place in await run.cluster(run["c"])]
    else:
        addresses = await run.masters()
    faults = []
    for address in addresses:
        try:
            await settings.change_broker(run.calls, address, pair)
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


@command(
    "What brokers keep timer messages in",
    BROKER_OR_CLUSTER,
    need("e", "engineType", "F: time wheel in files, R: RocksDB"),
)
async def switch_timer_engine(run: Run) -> None:
    engine = run["e"]
    if engine not in ENGINES:
        raise UsageError(f"-e {engine}: F (time wheel in files) or R (RocksDB)")
    for address in await run.masters():
        await run.ask(address, RequestCode.SWITCH_TIMER_ENGINE, SwitchTimerEngine(engine_type=engine))
        run.say(f"switchTimerEngine to {ENGINES[engine]} success, {address}")


@command(
    "Set what a slave takes for the flushed position of its master",
    may("b", "brokerAddr", "the slave, host:port"),
    may("o", "offset", "the position"),
    waits_for="replication",
)
async def reset_master_flush_offset(run: Run) -> None:
    if "b" not in run or "o" not in run:
        raise UsageError("-b with the slave's address and -o with the position are needed")
    header = ResetMasterFlushOffset(master_flush_offset=run.number("o"))
    await run.ask(run["b"], RequestCode.RESET_MASTER_FLUSH_OFFSET, header)
    run.say(f"reset master flush offset to {run.number('o')} success")
