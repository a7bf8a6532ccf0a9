"""Replicas of brokers: who is master, how far the others are, what a controller says of them, and elections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..client.errors import Error
from ..errors import CallFailed
from ..model.wire_text import whole_number
from ..protocol.bodies.replication import HARuntimeInfo, ReplicasInfo
from ..protocol.headers.replication import CleanBrokerData, ElectedMaster, ElectMaster
from ..protocol.requests import RequestCode
from . import settings
from .calls import Calls
from .cluster import BrokerPlace, brokers

CLASSIC, CONTROLLED, ELECTED = "classic", "controller", "elected"


@dataclass(slots=True)
class ReplicaStatus:
    """One replica. None: not known. `id` is the controller's, or the elected set's, where there is one."""

    id: int
    address: str
    role: str
    answers: bool = False
    end: int | None = None  # of its log
    lag: int | None = None  # bytes that it has not got
    bytes_per_second: int | None = None  # that it takes from its master now
    epoch: int | None = None
    in_sync: bool | None = None
    is_alive: bool | None = None  # of an elected set: it says in etcd that it is there

    @property
    def caught_up_in_s(self) -> float | None:
        """Return in how many seconds it has what its master has, at its present rate."""
        if not self.lag or not self.bytes_per_second:
            return 0.0 if self.lag == 0 else None
        return round(self.lag / self.bytes_per_second, 1)


@dataclass(slots=True)
class SetReport:
    """All replicas of one broker name. `kind` says who chooses its master: nobody, a controller, its members."""

    cluster: str
    name: str
    replicas: list[ReplicaStatus] = field(default_factory=list)
    kind: str = CLASSIC
    settings: dict[str, str] = field(default_factory=dict)  # of a member that answers
    leader: str = ""  # the address of the controller that leads
    trouble: str = ""  # why nothing is known of the in-sync set
    epoch: int | None = None
    set_epoch: int | None = None
    switched_ms: int | None = None
    switched_why: str = ""

    @property
    def master(self) -> ReplicaStatus | None:
        return next((one for one in self.replicas if one.role == "master"), None)

    @property
    def in_sync(self) -> list[int]:
        """Return the ids of those that are in sync, the master included."""
        return sorted(one.id for one in self.replicas if one.in_sync)

    @property
    def minimum(self) -> int:
        """Return minInSyncReplicas of its brokers."""
        unless_said = 2 if self.kind == ELECTED else 1
        return whole_number(self.settings.get("minInSyncReplicas")) or unless_said


async def report(calls: Calls, places: Sequence[BrokerPlace]) -> SetReport:
    """Return how the replicas of one broker name are, by asking each, and the controller that their settings name."""
    found = SetReport(places[0].cluster, places[0].name)
    statuses: dict[str, HARuntimeInfo] = {}
    for place in places:
        one = ReplicaStatus(place.id, place.address, "master" if place.is_master else "slave")
        found.replicas.append(one)
        try:
            statuses[place.address] = (await calls.ask(place.address, RequestCode.GET_BROKER_HA_STATUS)).body
            found.settings = found.settings or await settings.of_broker(calls, place.address)
        except (CallFailed, Error):
            continue
        one.answers = True
    _take_statuses(found, statuses)
    if found.settings.get("enableControllerMode") == "true":
        found.kind = CONTROLLED
        await _ask_controller(calls, found)
    elif found.settings.get("etcdEndpoints"):
        found.kind = ELECTED
    if found.kind != CLASSIC:
        for one in found.replicas:
            one.epoch = await _epoch(calls, one)
    return found


def _take_statuses(found: SetReport, statuses: Mapping[str, HARuntimeInfo]) -> None:
    """Take over what replicas say of their logs, and a master of its slaves."""
    master = next((info for info in statuses.values() if info.master), None)
    for one in found.replicas:
        info = statuses.get(one.address)
        if info is None:
            continue
        one.end = info.ha_client_runtime_info.max_offset
        if info.master:
            one.end = info.master_commit_log_max_offset
        else:
            one.bytes_per_second = info.ha_client_runtime_info.transferred_byte_in_second
        if master is not None:
            one.lag = max(0, master.master_commit_log_max_offset - one.end)
    if master is None:
        return
    slaves = len(found.replicas) - 1
    for one in found.replicas:
        if one.role == "master":
            one.in_sync = True
        elif master.in_sync_slave_nums in (0, slaves):  # its connections have no ids: only none and all can be told
            one.in_sync = master.in_sync_slave_nums == slaves


async def _epoch(calls: Calls, one: ReplicaStatus) -> int | None:
    """Return the newest epoch of a replica's log."""
    if not one.answers:
        return None
    try:
        found = (await calls.ask(one.address, RequestCode.GET_BROKER_EPOCH_CACHE)).body
    except (CallFailed, Error):
        return None
    return found.epoch_list[-1].epoch if found.epoch_list else None


async def _ask_controller(calls: Calls, found: SetReport) -> None:
    addresses = [each.strip() for each in found.settings.get("controllerAddr", "").split(";") if each.strip()]
    try:
        found.leader = await leader(calls, addresses)
        info = await sync_state(calls, found.leader, found.name)
    except (CallFailed, Error) as fault:
        found.trouble = str(fault)
        return
    if info is None:
        found.trouble = f"the controller at {found.leader} does not know {found.name}"
        return
    take_sync_state(found, info)


def take_sync_state(found: SetReport, info: ReplicasInfo) -> None:
    """Take over what a controller says: its ids, also of replicas that no name server knows now."""
    found.epoch, found.set_epoch = info.master_epoch, info.sync_state_set_epoch
    found.switched_ms, found.switched_why = info.switched_ms, info.switched_why or ""
    by_address = {one.address: one for one in found.replicas}
    for members, is_in_sync in ((info.in_sync_replicas, True), (info.not_in_sync_replicas, False)):
        for member in members:
            address, number = member.broker_address or "", member.broker_id or 0
            one = by_address.get(address)
            if one is None:
                one = ReplicaStatus(number, address, "slave")
                found.replicas.append(one)
            one.id, one.in_sync = number, is_in_sync
            one.role = "master" if number == info.master_broker_id else "slave"
    found.replicas.sort(key=lambda each: each.id)


async def leader(calls: Calls, controllers: Sequence[str]) -> str:
    """Return the address of the controller that leads. Raises the last fault, or NoLeader if nobody does."""
    fault: Exception = NoLeader(f"no controller of {';'.join(controllers) or 'controllerAddr'} leads now")
    for address in controllers:
        try:
            known = (await calls.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)).header
        except (CallFailed, Error) as failed:
            fault = failed
            continue
        if known.controller_leader_address:
            return known.controller_leader_address
    raise fault


class NoLeader(CallFailed):
    """Controllers answer, and none of them leads."""


async def sync_state(calls: Calls, controller: str, name: str) -> ReplicasInfo | None:
    """Return what the controller that leads says of a set; None if it does not know it."""
    answer = await calls.ask(controller, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=[name])
    return answer.body.replicas_info_table.get(name)


async def forget(calls: Calls, controller: str, found: SetReport, replica: int, now_ms: int) -> None:
    """Let the controller that leads forget a replica that is gone for good. Refused if it is there."""
    wanted = CleanBrokerData(
        cluster_name=found.cluster,
        broker_name=found.name,
        broker_controller_ids_to_clean=str(replica),
        is_clean_living_broker=False,
        invoke_time=now_ms,
    )
    await calls.ask(controller, RequestCode.CLEAN_BROKER_DATA, wanted)


async def elect(calls: Calls, controller: str, found: SetReport, replica: int, now_ms: int) -> ElectedMaster:
    """Let the controller that leads make a replica the master. Refused if it cannot be."""
    wanted = ElectMaster(
        cluster_name=found.cluster,
        broker_name=found.name,
        broker_id=replica,
        designate_elect=True,
        invoke_time=now_ms,
    )
    return (await calls.ask(controller, RequestCode.CONTROLLER_ELECT_MASTER, wanted)).header


ReadElectedState = Callable[[SetReport], Awaitable[None]]  # adds what the members of an elected set wrote in etcd


async def reports(calls: Calls, read_elected: ReadElectedState | None, name: str | None = None) -> list[SetReport]:
    """Return how each set of replicas is, or the one of this name. Without `read_elected` nobody asks etcd."""
    places = await brokers(calls)
    sets = []
    for cluster, known in sorted({(place.cluster, place.name) for place in places}):
        if name in (None, known):
            found = await report(calls, [place for place in places if (place.cluster, place.name) == (cluster, known)])
            if found.kind == ELECTED:
                if read_elected is None:
                    found.trouble = "its state is in etcd, which this program does not read"
                else:
                    await read_elected(found)
            sets.append(found)
    return sets
