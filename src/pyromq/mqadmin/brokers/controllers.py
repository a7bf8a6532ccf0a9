"""Controllers, which elect masters, and broker containers."""

from __future__ import annotations

from functools import partial

from ...admin import settings
from ...model.wire_text import whole_number
from ...protocol.bodies.replication import ReplicaIdentity
from ...protocol.headers.replication import AddBroker, CleanBrokerData, ElectMaster, RemoveBroker
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..options import INTERVAL, flag, may, need
from ..parsing import UsageError
from ..printing import java, java_list, setting_lines
from .replication import CONTROLLER

CONTAINER = "broker containers"
controller_command = partial(command, waits_for=CONTROLLER)
AT = need("a", "controllerAddress", "controllers, host:port;host:port")


@controller_command(
    "Which replicas of brokers are in sync, as the controller knows",
    AT,
    may("b", "brokerName", "name of the broker"),
    may("c", "clusterName", "the cluster"),
    INTERVAL,
)
async def get_sync_state_set(run: Run) -> None:
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
            for member in of.in_sync_replicas:
                run.say("", f"InSyncReplica:\t{_replica(member)}")
            for member in of.not_in_sync_replicas:
                run.say("", f"NotInSyncReplica:\t{_replica(member)}")


def _replica(of: ReplicaIdentity) -> str:
    return (
        f"ReplicaIdentity{{brokerName='{of.broker_name}', brokerId={java(of.broker_id)}, "
        f"brokerAddress='{of.broker_address}', alive={java(of.alive)}}}"
    )


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


@controller_command("Who leads the controllers", AT)
async def get_controller_metadata(run: Run) -> None:
    found = (await run.ask(_controller(run), RequestCode.CONTROLLER_GET_METADATA_INFO)).header
    run.say("", f"#ControllerGroup\t{java(found.group)}")
    run.say(f"#ControllerLeaderId\t{java(found.controller_leader_id)}")
    run.say(f"#ControllerLeaderAddress\t{java(found.controller_leader_address)}")
    for peer in filter(None, (found.peers or "").split(";")):
        run.say(f"#Peer:\t{peer}")


@controller_command("Settings of controllers", AT)
async def get_controller_config(run: Run) -> None:
    for address in _controllers(run):
        found = await settings.fetch(run.calls, address, RequestCode.GET_CONTROLLER_CONFIG)
        run.say(f"============{address}============", *setting_lines(found))


@controller_command(
    "Change a setting of controllers",
    AT,
    need("k", "key", "the setting"),
    need("v", "value", "its new value"),
)
async def update_controller_config(run: Run) -> None:
    for address in _controllers(run):
        await settings.change(run.calls, address, RequestCode.UPDATE_CONTROLLER_CONFIG, {run["k"]: run["v"]})
    run.say(f"update controller config success!{java_list(_controllers(run))}", f"{run['k']} : {run['v']}")


@controller_command(
    "Let the controller make a broker the master",
    AT,
    need("b", "brokerId", "its id"),
    need("bn", "brokerName", "its name"),
    need("c", "clusterName", "its cluster"),
)
async def elect_master(run: Run) -> None:
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


@controller_command(
    "Let the controller forget brokers",
    AT,
    may("b", "brokerControllerIdsToClean", "ids, with semicolons; default: all of the name"),
    need("bn", "brokerName", "name of the brokers"),
    may("c", "clusterName", "their cluster"),
    flag("l", "cleanLivingBroker", "even those that are alive"),
)
async def clean_broker_metadata(run: Run) -> None:
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

AT_CONTAINER = need("c", "brokerContainerAddr", "the container, host:port")


@command(
    "Start a broker in a container",
    need("b", "brokerConfigPath", "its settings file, on the container's machine"),
    AT_CONTAINER,
    waits_for=CONTAINER,
)
async def add_broker(run: Run) -> None:
    await run.ask(run["c"], RequestCode.ADD_BROKER, AddBroker(config_path=run["b"]))
    run.say(f"add broker to {run['c']} success")


@command(
    "Stop a broker of a container",
    need("b", "brokerIdentity", "clusterName:brokerName:brokerId"),
    AT_CONTAINER,
    waits_for=CONTAINER,
)
async def remove_broker(run: Run) -> None:
    parts = run["b"].split(":")
    number = whole_number(parts[-1])
    if len(parts) != 3 or number is None:
        raise UsageError(f"-b {run['b']}: clusterName:brokerName:brokerId is needed")
    header = RemoveBroker(broker_cluster_name=parts[0], broker_name=parts[1], broker_id=number)
    await run.ask(run["c"], RequestCode.REMOVE_BROKER, header)
    run.say(f"remove broker from {run['c']} success")
