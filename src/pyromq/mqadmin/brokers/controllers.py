"""Masters and slaves: how far slaves are, who was master; controllers, which elect them; broker containers."""

from __future__ import annotations

from functools import partial

from ...admin import cluster
from ...model.wire_text import whole_number
from ...protocol.bodies.replication import HAClientRuntimeInfo
from ...protocol.headers.replication import AddBroker, CleanBrokerData, ElectMaster, RemoveBroker
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..options import BROKER, CLUSTER, INTERVAL, UsageError
from ..printing import Columns, java, java_object, when
from .brokers import change_setting, show_settings

container_command = partial(command, waits_for="broker containers")
REPLICA = "ReplicaIdentity{'brokerName', brokerId, 'brokerAddress', alive}"
AT = "-a controllerAddress=  controllers, host:port;host:port"


@command("Which replicas of brokers are in sync, as the controller knows", AT, INTERVAL)
async def get_sync_state_set(run: Run) -> None:
    """[-b brokerName=]  name of the broker
    [-c clusterName=]    the cluster"""
    if "b" not in run and "c" not in run:
        raise UsageError("say which: -b with a broker's name, or -c with a cluster's name")
    async for _ in run.rounds():
        names = {run["b"]} if "b" in run else {place.name for place in await run.cluster(run["c"])}
        found = await run.ask(_controller(run), RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=sorted(names))
        for name, of in found.body.replicas_info_table.items():
            run.say("", f"#brokerName\t{name}", f"#MasterBrokerId\t{java(of.master_broker_id)}")
            run.say(f"#MasterAddr\t{java(of.master_address)}", f"#MasterEpoch\t{java(of.master_epoch)}")
            run.say(
                f"#SyncStateSetEpoch\t{java(of.sync_state_set_epoch)}", f"#SyncStateSetNums\t{len(of.in_sync_replicas)}"
            )
            for kind, members in (("In", of.in_sync_replicas), ("NotIn", of.not_in_sync_replicas)):
                for member in members:
                    run.say("", f"{kind}SyncReplica:\t{java_object(REPLICA, member)}")


def _controller(run: Run) -> str:
    """Return the first address of `-a`: any controller knows the leader."""
    return run["a"].replace(",", ";").split(";")[0].strip()


def _controllers(run: Run) -> list[str]:
    return [each.strip() for each in run["a"].split(";") if each.strip()]


async def _leader(run: Run) -> str:
    found = (await run.ask(_controller(run), RequestCode.CONTROLLER_GET_METADATA_INFO)).header
    if not found.controller_leader_address:
        raise Failed(f"the controllers of {run['a']} have no leader now")
    return found.controller_leader_address


@command("Who leads the controllers", AT)
async def get_controller_meta_data(run: Run) -> None:
    found = (await run.ask(_controller(run), RequestCode.CONTROLLER_GET_METADATA_INFO)).header
    run.say("", f"#ControllerGroup\t{java(found.group)}")
    run.say(f"#ControllerLeaderId\t{java(found.controller_leader_id)}")
    run.say(f"#ControllerLeaderAddress\t{java(found.controller_leader_address)}")
    for peer in filter(None, (found.peers or "").split(";")):
        run.say(f"#Peer:\t{peer}")


@command("Settings of controllers", AT)
async def get_controller_config(run: Run) -> None:
    await show_settings(run, _controllers(run), RequestCode.GET_CONTROLLER_CONFIG)


@command("Change a setting of controllers", AT)
async def update_controller_config(run: Run) -> None:
    """-k key=  the setting
    -v value=   its new value"""
    await change_setting(run, "controller", _controllers(run), RequestCode.UPDATE_CONTROLLER_CONFIG)


@command("Let the controller make a broker the master", AT)
async def elect_master(run: Run) -> None:
    """-b brokerId=  its id
    -bn brokerName=  its name
    -c clusterName=  its cluster"""
    wanted = ElectMaster(
        cluster_name=run["c"],
        broker_name=run["bn"],
        broker_id=run.number("b"),
        designate_elect=True,
        invoke_time=run.clock.now_ms(),
    )
    elected = await run.ask(await _leader(run), RequestCode.CONTROLLER_ELECT_MASTER, wanted)
    answer, members = elected.header, elected.body.broker_member_group
    run.say("", f"#ClusterName\t{run['c']}", f"#BrokerName\t{run['bn']}")
    run.say(f"#BrokerMasterAddr\t{java(answer.master_address)}", f"#MasterEpoch\t{java(answer.master_epoch)}")
    run.say(f"#SyncStateSetEpoch\t{java(answer.sync_state_set_epoch)}")
    for broker_id, address in (members.broker_addrs if members else {}).items():
        run.say(f"\t#Broker\t{broker_id}\t{address}")


@command("Let the controller forget brokers", AT)
async def clean_broker_metadata(run: Run) -> None:
    """[-b brokerControllerIdsToClean=]  ids, with semicolons; default: all of the name
    -bn brokerName=                      name of the brokers
    [-c clusterName=]                    their cluster
    [-l cleanLivingBroker]               even those that are alive"""
    ids = run.get("b")
    if not all(whole_number(part.strip()) is not None for part in ids.split(";") if part):
        raise UsageError(f"-b {ids}: ids are numbers, with semicolons between")
    if "l" not in run and "c" not in run:
        raise UsageError("-c with the cluster is needed, unless -l cleans living brokers too")
    wanted = CleanBrokerData(
        cluster_name=run.get("c") or None,
        broker_name=run["bn"],
        broker_controller_ids_to_clean=ids or None,
        is_clean_living_broker="l" in run,
        invoke_time=run.clock.now_ms(),
    )
    await run.ask(await _leader(run), RequestCode.CLEAN_BROKER_DATA, wanted)
    run.say(f"clear broker {run['bn']} metadata from controller success! ")


# --- containers -------------------------------------------------------------------------------------------------------

AT_CONTAINER = "-c brokerContainerAddr=  the container, host:port"


@container_command("Start a broker in a container", AT_CONTAINER)
async def add_broker(run: Run) -> None:
    """-b brokerConfigPath=  its settings file, on the container's machine"""
    await run.ask(run["c"], RequestCode.ADD_BROKER, AddBroker(config_path=run["b"]))
    run.say(f"add broker to {run['c']} success")


@container_command("Stop a broker of a container", AT_CONTAINER, "-b brokerIdentity=  clusterName:brokerName:brokerId")
async def remove_broker(run: Run) -> None:
    parts = run["b"].split(":")
    number = whole_number(parts[-1])
    if len(parts) != 3 or number is None:
        raise UsageError(f"-b {run['b']}: clusterName:brokerName:brokerId is needed")
    header = RemoveBroker(broker_cluster_name=parts[0], broker_name=parts[1], broker_id=number)
    await run.ask(run["c"], RequestCode.REMOVE_BROKER, header)
    run.say(f"remove broker from {run['c']} success")


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
    for name, moment in (("Read", info.last_read_timestamp), ("Write", info.last_write_timestamp)):
        run.say(f"#Last{name}Time\t{when(moment) if moment else 'never'}")
    run.say(f"#MasterFlushOffset\t{info.master_flush_offset}")


@command(
    "Epochs of brokers: who was master from which position on",
    ("[-b brokerName=]  name of the broker: master and slaves", "[-c clusterName=]  the cluster"),
    INTERVAL,
    waits_for="elected sets of our own brokers",
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
        run.say("#Epoch: " + java_object("EpochEntry{epoch, startOffset, endOffset}", entry, endOffset=end))
