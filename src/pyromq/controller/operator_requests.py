"""What administrators ask a controller: who leads (1005), which replicas are in sync (1006), its settings (1009, 1010),
and to forget replicas (1011)."""

from __future__ import annotations

from .. import logs
from ..config import Live, properties
from ..config.over_wire import SOURCE, checked_change
from ..errors import PyroError, RequestRefused
from ..model.codes import ResponseCode
from ..model.wire_text import whole_number
from ..protocol.bodies.replication import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo
from ..protocol.headers.replication import CleanBrokerData, GetMetadataInfoAnswer
from ..transport.dispatch import Reply, Request, RequestOf
from . import rules
from .config import HIDDEN_KEYS, ControllerConfig
from .controlled_sets import ControlledSet, ControlledSets
from .elected_sets import ElectedSets, ElectedView, find_elected
from .heartbeats import HeardBrokers, ReplicaId
from .leadership import Leadership
from .replica_set import ReplicaSet

log = logs.get("pyromq.controller")


class OperatorRequests:
    """Event loop only."""

    def __init__(
        self,
        sets: ControlledSets,
        elected: ElectedSets,
        heard: HeardBrokers,
        leadership: Leadership,
        live: Live[ControllerConfig],
    ) -> None:
        self._sets, self._elected = sets, elected
        self._heard = heard
        self._leadership = leadership
        self._live = live

    def metadata(self, request: Request) -> Reply:
        """Answer 1005, whoever leads."""
        leadership = self._leadership
        leader = leadership.leader
        return Reply(
            header=GetMetadataInfoAnswer(
                group=leadership.group,
                controller_leader_id=leader.id if leader else None,
                controller_leader_address=leader.address if leader else None,
                is_leader=leadership.leads,
                peers="".join(f"{place.id}:{place.address};" for place in leadership.peers.values()),
            )
        )

    async def sync_state(self, request: RequestOf[None, list[str]]) -> Reply:
        """Answer 1006: of each name that is known; others are left out."""
        names = request.body if request.raw_body else []
        if not names:
            raise RequestRefused("not set any response code")  # Java's answer to a request that names no broker
        found = {}
        for name in names:
            record = await self._sets.find(name)
            if record.content is not None:
                found[name] = self._replicas(record)
            elif (elected := await find_elected(self._elected, name)) is not None:
                found[name] = _elected_replicas(elected)
        return Reply(body=BrokerReplicasInfo(replicas_info_table=found))

    def _replicas(self, record: ControlledSet) -> ReplicasInfo:
        content = record.content
        assert content is not None
        members = [
            ReplicaIdentity(
                alive=self._heard.is_alive(ReplicaId(record.cluster, record.name, replica)),
                broker_address=place.address,
                broker_id=replica,
                broker_name=record.name,
            )
            for replica, place in sorted(content.replicas.items())
        ]
        return _info(content, members)

    async def clean(self, request: RequestOf[CleanBrokerData, None]) -> Reply:
        header = request.header
        before = await self._sets.find(header.broker_name, header.cluster_name or "")

        def is_alive(replica: int) -> bool:
            return self._heard.is_alive(ReplicaId(before.cluster, before.name, replica))

        ids, even_living = header.broker_controller_ids_to_clean or "", header.is_clean_living_broker
        if before.content is None:
            elected = await find_elected(self._elected, before.name, header.cluster_name)
            if elected is not None:
                return await self._forget_elected(elected, header)
            rules.without(None, before.name, ids, even_living=even_living, is_alive=is_alive)
        await self._sets.change(
            before.name,
            before.cluster,
            lambda found: rules.without(found, before.name, ids, even_living=even_living, is_alive=is_alive),
        )
        log.warning("replicas forgotten", broker=before.name, ids=ids or "all", by=request.peer.address)
        return Reply()

    async def _forget_elected(self, found: ElectedView, header: CleanBrokerData) -> Reply:
        """Forget replicas of a set that elects its master: those that are named, which must be gone, and no others."""
        ids = [whole_number(part.strip()) for part in (header.broker_controller_ids_to_clean or "").split(";") if part]
        if not ids or None in ids:
            raise RequestRefused(
                f"{found.name} elects its master over etcd: name the ids of replicas that are gone (-b)",
                ResponseCode.CONTROLLER_INVALID_REQUEST,
            )
        try:
            for replica in ids:
                await self._elected.forget(found, replica or 0)
        except PyroError as fault:
            raise RequestRefused(str(fault), ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA) from None
        return Reply()

    def show_settings(self, request: Request) -> Reply:
        """Answer 1010, in alphabetical order, without passwords and what has no value."""
        shown = self._live.shown() | {"configStorePath": str(self._live.config.overlay_path)}
        pairs = {key: value for key, value in sorted(shown.items()) if value and key not in HIDDEN_KEYS}
        return Reply(body=properties.render(pairs).encode())

    def change_settings(self, request: Request) -> Reply:
        """Answer 1009, once all of it or nothing is in effect and in the overlay file."""
        text = request.raw_body.decode("utf-8", "replace")
        config, before = self._live.config, self._live.shown()
        with checked_change(text, config.black_list, config.overlay_path):
            changed = self._live.change(text, SOURCE)
        log.warning("settings changed", by=request.peer.address, **changed)
        return Reply(noted=self._live.noted(changed, before))


def _elected_replicas(found: ElectedView) -> ReplicasInfo:
    members = [
        ReplicaIdentity(alive=one.is_alive, broker_address=one.address, broker_id=one.id, broker_name=found.name)
        for one in found.replicas
    ]
    return _info(found, members)


def _info(found: ReplicaSet | ElectedView, members: list[ReplicaIdentity]) -> ReplicasInfo:
    return ReplicasInfo(
        in_sync_replicas=[one for one in members if one.broker_id in found.in_sync],
        master_address=found.master_address,
        master_broker_id=found.master,
        master_epoch=found.epoch,
        not_in_sync_replicas=[one for one in members if one.broker_id not in found.in_sync],
        switched_ms=found.switched_ms or None,
        switched_why=found.switched_why or None,
        sync_state_set_epoch=found.set_epoch,
    )
