"""What brokers of a set ask the controller that leads: ids (1012, 1013), registration (1003), elections (1002), who is
master (1004), a new in-sync set (1001); and their heartbeats (904), which every controller takes."""

from __future__ import annotations

from ..config import Live
from ..errors import PyroError, RequestRefused
from ..model.codes import ResponseCode as Code
from ..protocol.bodies.replication import ElectMasterResponseBody, SyncStateSet
from ..protocol.bodies.route import BrokerMemberGroup
from ..protocol.headers import replication as headers
from ..protocol.headers.namesrv import BrokerHeartbeat
from ..transport.dispatch import Reply, RequestOf
from . import rules
from .config import ControllerConfig
from .controlled_sets import ControlledSet, ControlledSets
from .elected_sets import ElectedSets, ElectedView, find_elected, refuse_elected
from .elections import Election, Elections
from .heartbeats import HeardBrokers, ReplicaId
from .replica_set import FIRST_ID, ReplicaSet

SWITCH_S = 3.0  # for a set that elects its master: mqadmin waits for 5 s


class SetRequests:
    """Event loop only. Answers are as the coordination store has the sets now."""

    def __init__(
        self,
        sets: ControlledSets,
        elected: ElectedSets,
        heard: HeardBrokers,
        elections: Elections,
        live: Live[ControllerConfig],
    ) -> None:
        self._sets, self._elected = sets, elected
        self._heard = heard
        self._elections = elections
        self._live = live

    def heartbeat(self, request: RequestOf[BrokerHeartbeat, None]) -> Reply:
        self._heard.note(request.header, request.peer, most=self._live.config.max_brokers)
        return Reply(remark="Heart beat success")

    async def next_id(self, request: RequestOf[headers.ControlledBroker, None]) -> Reply:
        header = request.header
        found = (await self._sets.find(_named(header.broker_name), header.cluster_name or "")).content
        return Reply(
            header=headers.GetNextBrokerIdAnswer(
                cluster_name=header.cluster_name,
                broker_name=header.broker_name,
                next_broker_id=FIRST_ID if found is None else found.next_id,
            )
        )

    async def apply_id(self, request: RequestOf[headers.ApplyBrokerId, None]) -> Reply:
        header = request.header
        name, applied, code = _named(header.broker_name), header.applied_broker_id, header.register_check_code
        if applied is None or not code or not header.cluster_name:
            raise _incomplete("clusterName, appliedBrokerId and registerCheckCode")
        await refuse_elected(self._elected, name, header.cluster_name)
        await self._sets.change(name, header.cluster_name, lambda found: rules.with_id(found, name, applied, code))
        return Reply(header=headers.ControlledBroker(cluster_name=header.cluster_name, broker_name=name))

    async def register(self, request: RequestOf[headers.RegisterBrokerToController, None]) -> Reply:
        """Answer 1003: with the master's fields only if that is there."""
        header = request.header
        name, replica, address = _named(header.broker_name), header.broker_id, header.broker_address
        if replica is None or not address or not header.cluster_name:
            raise _incomplete("clusterName, brokerId and brokerAddress")
        await refuse_elected(self._elected, name, header.cluster_name)
        record = await self._sets.change(
            name, header.cluster_name, lambda found: rules.with_address(found, name, replica, address)
        )
        content = record.content or ReplicaSet()
        answer = headers.RegisterBrokerToControllerAnswer(cluster_name=header.cluster_name, broker_name=name)
        if content.master is not None and self._is_alive(record, content.master):
            answer.master_broker_id, answer.master_address = content.master, content.master_address
            answer.master_epoch, answer.sync_state_set_epoch = content.epoch, content.set_epoch
        return Reply(header=answer, body=_in_sync(content))

    async def elect(self, request: RequestOf[headers.ElectMaster, None]) -> Reply:
        header = request.header
        elected = await find_elected(self._elected, _named(header.broker_name), header.cluster_name)
        if elected is not None:
            return await self._switch(elected, header)
        asked = "an administrator asked for it" if header.designate_elect else f"broker {header.broker_id} asked for it"
        election = await self._elections.elect(
            _named(header.broker_name),
            header.cluster_name,
            asker=header.broker_id,
            designated=header.designate_elect,
            why=asked,
        )
        if election.master is None:
            raise RequestRefused("Failed to elect a new master", Code.CONTROLLER_ELECT_MASTER_FAILED)
        return _elected(election)

    async def _switch(self, found: ElectedView, header: headers.ElectMaster) -> Reply:
        """Hand an administrator's wish on to a set that elects its master itself."""
        replica = header.broker_id
        one = next((each for each in found.replicas if each.id == replica), None)
        if not header.designate_elect or replica is None:
            await refuse_elected(self._elected, found.name, found.cluster)
        if one is None or not one.is_in_sync or not one.is_alive:
            why = "is none of its replicas" if one is None else "is not in sync" if one.is_alive else "is not there"
            raise RequestRefused(
                f"replica {replica} of {found.name} cannot be master: it {why}", Code.CONTROLLER_ELECT_MASTER_FAILED
            )
        is_new = found.master != replica
        try:
            after = await self._elected.switch(found, one.id, SWITCH_S) if is_new else found
        except PyroError as fault:
            raise RequestRefused(str(fault), Code.CONTROLLER_ELECT_MASTER_FAILED) from None
        places = {each.id: each.address for each in after.replicas}
        return _answer(is_new, _master_of(after), after.in_sync, (after.cluster, after.name), places)

    async def replica_info(self, request: RequestOf[headers.GetReplicaInfo, None]) -> Reply:
        name = _named(request.header.broker_name)
        found = (await self._sets.find(name)).content
        if found is None and (elected := await find_elected(self._elected, name)) is not None:
            master = headers.ReplicaMaster(
                master_broker_id=elected.master, master_address=elected.master_address, master_epoch=elected.epoch
            )
            body = SyncStateSet(sync_state_set=elected.in_sync, sync_state_set_epoch=elected.set_epoch)
            return Reply(header=master, body=body)
        if found is None:
            raise RequestRefused(rules.NO_METADATA, Code.CONTROLLER_BROKER_METADATA_NOT_EXIST)
        answer = headers.ReplicaMaster(
            master_broker_id=found.master, master_address=found.master_address, master_epoch=found.epoch
        )
        return Reply(header=answer, body=_in_sync(found))

    async def alter_in_sync(self, request: RequestOf[headers.AlterSyncStateSet, SyncStateSet]) -> Reply:
        header, asked = request.header, request.body
        name = _named(header.broker_name)
        before = await self._sets.find(name)

        def decide(found: ReplicaSet | None) -> ReplicaSet:
            return rules.with_in_sync(
                found,
                asked.sync_state_set or (),
                master=header.master_broker_id,
                epoch=header.master_epoch,
                set_epoch=asked.sync_state_set_epoch,
                minimum=self._live.config.min_in_sync_replicas,
                is_alive=lambda replica: self._is_alive(before, replica),
            )

        if before.content is None:
            decide(None)
        content = (await self._sets.change(name, before.cluster, decide)).content or ReplicaSet()
        return Reply(
            header=headers.AlterSyncStateSetAnswer(new_sync_state_set_epoch=content.set_epoch), body=_in_sync(content)
        )

    def _is_alive(self, record: ControlledSet, replica: int) -> bool:
        return self._heard.is_alive(ReplicaId(record.cluster, record.name, replica))


def _elected(election: Election) -> Reply:
    """Answer an election that has a master."""
    content, record = election.content, election.record
    answer = headers.ElectedMaster(
        master_broker_id=content.master,
        master_address=content.master_address,
        master_epoch=content.epoch,
        sync_state_set_epoch=content.set_epoch,
    )
    places = {replica: place.address for replica, place in sorted(content.replicas.items())}
    return _answer(election.is_new, answer, sorted(content.in_sync), (record.cluster, record.name), places)


def _master_of(found: ElectedView) -> headers.ElectedMaster:
    return headers.ElectedMaster(
        master_broker_id=found.master,
        master_address=found.master_address,
        master_epoch=found.epoch,
        sync_state_set_epoch=found.set_epoch,
    )


def _answer(
    is_new: bool, answer: headers.ElectedMaster, in_sync: list[int], named: tuple[str, str], places: dict[int, str]
) -> Reply:
    """Answer with a master: 0 for a new one, 2011 where the old one stays, with the same fields."""
    body, (cluster, name) = ElectMasterResponseBody(sync_state_set=in_sync), named
    if not is_new:
        master = answer.master_broker_id
        remark = f"The old master {master} is still alive, not need to elect new master for broker {name}"
        return Reply(Code.CONTROLLER_MASTER_STILL_EXIST, remark=remark, header=answer, body=body)
    body.broker_member_group = BrokerMemberGroup(broker_addrs=places, broker_name=name, cluster=cluster)
    return Reply(header=answer, body=body)


def _in_sync(content: ReplicaSet) -> SyncStateSet:
    return SyncStateSet(sync_state_set=sorted(content.in_sync), sync_state_set_epoch=content.set_epoch)


def _named(name: str | None) -> str:
    if not name:
        raise _incomplete("brokerName")
    return name


def _incomplete(fields: str) -> RequestRefused:
    return RequestRefused(f"the request needs {fields}", Code.CONTROLLER_INVALID_REQUEST)
