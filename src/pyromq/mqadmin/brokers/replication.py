"""Masters and slaves: how far slaves are, and who was master from which position on."""

from __future__ import annotations

from ...admin import cluster
from ...protocol.bodies.replication import HAClientRuntimeInfo
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..options import BROKER, CLUSTER, INTERVAL, may, one_of
from ..printing import Columns, java, when

CONTROLLER = "a controller: epochs and elections"
SLAVE = Columns(
    "{#SlaveAddr:<32}  {#SlaveAckOffset:<16} {#Diff:>16} {#TransferSpeed(KB/s):>16} "
    "{#Status:>16} {#TransferFromWhere:>16}"
)


@command("How far the slaves of masters are", BROKER, CLUSTER, INTERVAL)
async def ha_status(run: Run) -> None:
    async for _ in run.rounds():
        for address in await run.masters():
            await _ha_status(run, address)


async def _ha_status(run: Run, address: str) -> None:
    info = (await run.ask(address, RequestCode.GET_BROKER_HA_STATUS)).body
    if not info.master:
        _print_slave(run, info.ha_client_runtime_info)
        return
    slaves = info.ha_connection_info
    run.say("", f"#MasterAddr\t{address}", f"#MasterCommitLogMaxOffset\t{info.master_commit_log_max_offset}")
    run.say(f"#SlaveNum\t{len(slaves)}", f"#InSyncSlaveNum\t{info.in_sync_slave_nums}")
    run.say(SLAVE.head)
    for one in slaves:
        speed, state = f"{one.transferred_byte_in_second / 1024:.2f}", "OK" if one.in_sync else "Fall Behind"
        run.say(SLAVE.format(java(one.addr), one.slave_ack_offset, one.diff, speed, state, one.transfer_from_where))


def _print_slave(run: Run, info: HAClientRuntimeInfo) -> None:
    run.say("", f"#MasterAddr\t{java(info.master_addr)}")
    run.say(f"#CommitLogMaxOffset\t{info.max_offset}")
    run.say(f"#TransferSpeed(KB/s)\t{info.transferred_byte_in_second / 1024:.2f}")
    run.say(f"#LastReadTime\t{when(info.last_read_timestamp)}")
    run.say(f"#LastWriteTime\t{when(info.last_write_timestamp)}")
    run.say(f"#MasterFlushOffset\t{info.master_flush_offset}")


@command(
    "Epochs of brokers: who was master from which position on",
    one_of(may("b", "brokerName", "name of the broker: master and slaves"), may("c", "clusterName", "the cluster")),
    INTERVAL,
    waits_for=CONTROLLER,
)
async def get_broker_epoch(run: Run) -> None:
    async for _ in run.rounds():
        places = await (run.cluster(run["c"]) if "c" in run else cluster.brokers(run.calls))
        found = [place for place in places if "c" in run or place.name == run["b"]]
        if not found:
            raise Failed(f"the name server knows no broker named {run['b']}")
        for place in found:
            await _print_epochs(run, place.address)


async def _print_epochs(run: Run, address: str) -> None:
    of = (await run.ask(address, RequestCode.GET_BROKER_EPOCH_CACHE)).body
    run.say("", f"#clusterName\t{of.cluster_name}", f"#brokerName\t{of.broker_name}", f"#brokerAddr\t{address}")
    run.say(f"#brokerId\t{of.broker_id}")
    entries = of.epoch_list or []
    for number, entry in enumerate(entries, 1):
        end = of.max_offset if number == len(entries) else entry.end_offset
        run.say(f"#Epoch: EpochEntry{{epoch={entry.epoch}, startOffset={entry.start_offset}, endOffset={end}}}")
