"""Which brokers there are, and how they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..client.errors import NoBroker
from ..model.route import MASTER_ID
from ..protocol.bodies.replication import HARuntimeInfo
from ..protocol.bodies.route import ClusterInfo, KVTable
from ..protocol.headers.namesrv import AddWritePerm, AddWritePermAnswer, WipeWritePerm, WipeWritePermAnswer
from ..protocol.requests import RequestCode
from .calls import Calls, read, read_plain


@dataclass(frozen=True, slots=True, order=True)
class BrokerPlace:
    """One broker process."""

    cluster: str
    name: str
    id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.id == MASTER_ID


async def info(calls: Calls) -> ClusterInfo:
    return read(ClusterInfo, await calls.name_server(RequestCode.GET_BROKER_CLUSTER_INFO))


async def brokers(calls: Calls, cluster: str | None = None) -> list[BrokerPlace]:
    """All brokers that the name server knows, or those of one cluster; sorted. Empty if there is none."""
    found = await info(calls)
    by_name = {name: known for known, names in found.cluster_addr_table.items() for name in names}
    places = [
        BrokerPlace(by_name.get(name) or data.cluster or "", name, broker_id, address)
        for name, data in found.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    ]
    return sorted(place for place in places if cluster is None or place.cluster == cluster)


async def masters(calls: Calls, cluster: str | None = None) -> list[BrokerPlace]:
    """NoBroker if there is none: then nothing can be asked or changed."""
    found = [place for place in await brokers(calls, cluster) if place.is_master]
    if not found:
        where = "the name server knows no master" if cluster is None else f"cluster {cluster!r} has no master"
        raise NoBroker(where, hint="Is a broker running, and registered with this name server (pyromq cluster list)?")
    return found


async def runtime(calls: Calls, address: str) -> dict[str, str]:
    """28: what a broker tells of itself, as texts."""
    return read(KVTable, await calls.broker(address, RequestCode.GET_BROKER_RUNTIME_INFO)).table


async def inspect(calls: Calls, address: str) -> dict[str, Any]:
    """Ours. What the broker holds, and whether it is ready."""
    found: dict[str, Any] = read_plain(await calls.broker(address, RequestCode.INSPECT))
    return found


async def ha_status(calls: Calls, address: str) -> HARuntimeInfo:
    return read(HARuntimeInfo, await calls.broker(address, RequestCode.GET_BROKER_HA_STATUS))


async def wipe_write_perm(calls: Calls, name_server: str, broker_name: str) -> int:
    """On one name server: nobody is told to write to this broker any more. How many topics it concerned."""
    header = WipeWritePerm(broker_name=broker_name)
    answer = await calls.broker(name_server, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
    return WipeWritePermAnswer.from_fields(answer.fields).wipe_topic_count


async def add_write_perm(calls: Calls, name_server: str, broker_name: str) -> int:
    header = AddWritePerm(broker_name=broker_name)
    answer = await calls.broker(name_server, RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
    return AddWritePermAnswer.from_fields(answer.fields).add_topic_count
