"""The controllers of a set, as its brokers ask them: the one that leads answers, all of them take heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from .... import logs
from ....ambient import Clock
from ....coordination.store import ChangeOutcome, Verdict
from ....errors import CallFailed, CallRefused, ConnectionLost
from ....model.codes import ResponseCode
from ....protocol.bodies.body import encode_body
from ....protocol.bodies.replication import SyncStateSet
from ....protocol.command import Command
from ....protocol.headers import replication as headers
from ....protocol.headers.header import Header
from ....protocol.headers.namesrv import BrokerHeartbeat
from ....protocol.json import ANSWER_LIMITS
from ....protocol.requests import RequestCode as Code
from ....protocol.row import Row
from ....transport.client import RemotingClient
from ...election.set_state import SetState

log = logs.get("pyromq.broker")

TIMEOUT_S = 3.0
REPEAT_S = 60.0
# Refusals by which a controller says that a change of the set was looked at, and is not made. Others leave it open:
# 2007 (not the leader) is also said of what was handed to other controllers, and may still be done.
JUDGED = frozenset(
    (
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        ResponseCode.CONTROLLER_INVALID_MASTER,
        ResponseCode.CONTROLLER_INVALID_REPLICAS,
        ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    )
)

H = TypeVar("H", bound=Header | None)
A = TypeVar("A", bound=Header | None)
B = TypeVar("B")
R = TypeVar("R")


class NamedMaster(NamedTuple):
    """What a controller says of a set. `master` is None while it has none: then its epoch alone counts."""

    epoch: int
    master: int | None = None
    address: str = ""
    set_epoch: int = 0
    in_sync: frozenset[int] = frozenset()

    def state(self, minimum: int) -> SetState | None:
        """Return it as the state of a set; None: there is no master."""
        if self.master is None or not self.address:
            return None
        return SetState(
            epoch=self.epoch,
            master=self.master,
            in_sync=self.in_sync | {self.master},
            minimum=minimum,
            set_epoch=max(self.set_epoch, 1),
        )


class Controllers:
    """Event loop only. `cluster` and `name`: of the set. CallFailed: no controller leads, or it does not answer."""

    def __init__(self, client: RemotingClient, clock: Clock, addresses: Sequence[str], cluster: str, name: str) -> None:
        self._client, self._clock = client, clock
        self._addresses = tuple(addresses)
        self._cluster, self._name = cluster, name
        self._limited = logs.Limited(log, clock, REPEAT_S)
        self.leader: str | None = None

    async def find_leader(self) -> str:
        """Ask all controllers, one after the other, who leads."""
        fault: CallFailed = ConnectionLost(f"no controller of {';'.join(self._addresses)} leads now")
        for address in self._addresses:
            try:
                answer, _ = await self._ask_at(address, Code.CONTROLLER_GET_METADATA_INFO)
            except CallFailed as failed:
                fault = failed
                continue
            if answer.controller_leader_address:
                self.leader = answer.controller_leader_address
                return self.leader
        self.leader = None
        raise fault

    async def _ask(self, row: Row[H, B, A, R], header: H, body: Any = None) -> tuple[A, R]:
        leader = self.leader or await self.find_leader()
        try:
            return await self._ask_at(leader, row, header, body)
        except CallFailed as fault:
            if not isinstance(fault, CallRefused) or fault.code == ResponseCode.CONTROLLER_NOT_LEADER:
                self.leader = None
            raise

    async def _ask_at(
        self, address: str, row: Row[H, B, A, R], header: H | None = None, body: Any = None
    ) -> tuple[A, R]:
        fields = {} if header is None else header.to_fields()
        content = b"" if body is None else encode_body(body)
        answer = await self._client.call(address, Command(code=row.code, fields=fields, body=content), TIMEOUT_S)
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            raise CallRefused(answer.code, answer.remark, address)
        return row.gives.read_header(answer.fields), row.gives.read_body(answer.body, ANSWER_LIMITS)

    # --- who this broker is ------------------------------------------------------------------------------------------

    async def next_id(self) -> int:
        """Return the number that the next new replica of the set gets."""
        wanted = headers.ControlledBroker(cluster_name=self._cluster, broker_name=self._name)
        answer, _ = await self._ask(Code.CONTROLLER_GET_NEXT_BROKER_ID, wanted)
        if answer.next_broker_id is None:
            raise CallFailed(f"the controller at {self.leader} says no next broker id for {self._name}")
        return answer.next_broker_id

    async def apply_id(self, number: int, check_code: str) -> None:
        """Ask for a number. CallRefused: another broker has it."""
        wanted = headers.ApplyBrokerId(
            cluster_name=self._cluster,
            broker_name=self._name,
            applied_broker_id=number,
            register_check_code=check_code,
        )
        await self._ask(Code.CONTROLLER_APPLY_BROKER_ID, wanted)

    async def register(self, number: int, address: str) -> None:
        """Say where this replica is reached. CallRefused: the controller does not know that number."""
        wanted = headers.RegisterBrokerToController(
            cluster_name=self._cluster,
            broker_name=self._name,
            broker_id=number,
            broker_address=address,
            invoke_time=self._clock.now_ms(),
        )
        await self._ask(Code.CONTROLLER_REGISTER_BROKER, wanted)

    async def heartbeat(self, seen: BrokerHeartbeat) -> None:
        """Say to every controller that this replica is there, and how far its log goes."""
        for address in self._addresses:
            try:
                async with self._clock.timeout(TIMEOUT_S):
                    await self._client.send(address, Command(code=Code.BROKER_HEARTBEAT.code, fields=seen.to_fields()))
            except (CallFailed, TimeoutError) as fault:
                self._limited.warning("a controller does not hear this broker", controller=address, why=str(fault))

    # --- who leads ---------------------------------------------------------------------------------------------------

    async def named(self) -> NamedMaster:
        """Return who is master now."""
        answer, body = await self._ask(Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name=self._name))
        return named_by(answer, body)

    async def elect(self, number: int) -> NamedMaster:
        """Ask for an election, and return who is master now. CallRefused: nobody can be."""
        wanted = headers.ElectMaster(
            cluster_name=self._cluster, broker_name=self._name, broker_id=number, invoke_time=self._clock.now_ms()
        )
        answer, body = await self._ask(Code.CONTROLLER_ELECT_MASTER, wanted)
        set_epoch = answer.sync_state_set_epoch or 0
        return named_by(answer, SyncStateSet(sync_state_set=body.sync_state_set, sync_state_set_epoch=set_epoch))

    async def members(self) -> dict[int, str]:
        """Return the addresses of all replicas of the set."""
        _, body = await self._ask(Code.CONTROLLER_GET_SYNC_STATE_DATA, None, [self._name])
        found = body.replicas_info_table.get(self._name)
        if found is None:
            return {}
        known = (*found.in_sync_replicas, *found.not_in_sync_replicas)
        return {one.broker_id: one.broker_address for one in known if one.broker_id and one.broker_address}

    async def alter_in_sync(self, number: int, state: SetState, version: int) -> ChangeOutcome:
        """Ask for another in-sync set in place of the one with this set epoch."""
        wanted = headers.AlterSyncStateSet(
            broker_name=self._name,
            master_broker_id=number,
            master_epoch=state.epoch,
            invoke_time=self._clock.now_ms(),
        )
        asked = SyncStateSet(sync_state_set=sorted(state.in_sync), sync_state_set_epoch=version)
        try:
            answer, _ = await self._ask(Code.CONTROLLER_ALTER_SYNC_STATE_SET, wanted, asked)
        except CallFailed as fault:
            self._limited.warning("the in-sync set is not changed", wanted=sorted(state.in_sync), why=str(fault))
            is_known = isinstance(fault, CallRefused) and fault.code in JUDGED
            return ChangeOutcome(Verdict.CONFLICT if is_known else Verdict.UNKNOWN)
        return ChangeOutcome(Verdict.DONE, answer.new_sync_state_set_epoch)


def named_by(answer: headers.ReplicaMaster, body: SyncStateSet | None) -> NamedMaster:
    """Return what an answer, or a controller's notice, says of the set."""
    members = SyncStateSet() if body is None else body
    return NamedMaster(
        epoch=answer.master_epoch or 0,
        master=answer.master_broker_id,
        address=answer.master_address or "",
        set_epoch=members.sync_state_set_epoch,
        in_sync=frozenset(members.sync_state_set or ()),
    )
