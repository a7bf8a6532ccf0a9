"""Which brokers there are, and how they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..client.errors import NoBroker
from ..model.topic import MASTER_ID
from ..model.wire_text import decimal_number
from ..protocol.bodies.own import members
from ..protocol.bodies.route import ClusterInfo
from ..protocol.headers.namesrv import BrokerName
from ..protocol.requests import RequestCode
from .calls import Calls


@dataclass(frozen=True, slots=True, order=True)
class BrokerPlace:
    cluster: str
    name: str
    id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.id == MASTER_ID


async def info(calls: Calls) -> ClusterInfo:
    return (await calls.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)).body


async def brokers(calls: Calls, cluster: str | None = None) -> list[BrokerPlace]:
    """Return all brokers that the name server knows, or those of one cluster; sorted."""
    found = await info(calls)
    by_name = {name: known for known, names in found.cluster_addr_table.items() for name in names}
    places = [
        BrokerPlace(by_name.get(name) or data.cluster or "", name, broker_id, address)
        for name, data in found.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    ]
    return sorted(place for place in places if cluster is None or place.cluster == cluster)


async def masters(calls: Calls, cluster: str | None = None) -> list[BrokerPlace]:
    """Return the masters. NoBroker if there is none: then nothing can be asked or changed."""
    found = [place for place in await brokers(calls, cluster) if place.is_master]
    if not found:
        where = "the name server knows no master" if cluster is None else f"cluster {cluster!r} has no master"
        raise NoBroker(where, hint="Is a broker running, and registered with this name server (pyromq cluster list)?")
    return found


async def runtime(calls: Calls, address: str) -> dict[str, str]:
    """Return what a broker counts and measures, as texts."""
    return (await calls.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)).body.table


def first_number(runtime: dict[str, str], *names: str) -> float | None:
    """Return the first word of the first of these entries that is a number; of rates that is the one of 10 s."""
    for name in names:
        words = runtime.get(name, "").split()
        number = decimal_number(words[0] if words else None)
        if number is not None:
            return number
    return None


async def inspect(calls: Calls, address: str) -> dict[str, Any]:
    """Return what one of our brokers holds, and whether it is ready. Refused by Apache's."""
    return members((await calls.ask(address, RequestCode.INSPECT)).body)


async def let_be_written(calls: Calls, name_server: str, broker_name: str, *, may: bool) -> int:
    """Let one name server announce whether producers may write to this broker. Return how many topics that concerns."""
    broker = BrokerName(broker_name=broker_name)
    if may:
        return (await calls.ask(name_server, RequestCode.ADD_WRITE_PERM_OF_BROKER, broker)).header.add_topic_count
    return (await calls.ask(name_server, RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker)).header.wipe_topic_count


async def check_name_servers(calls: Calls) -> None:
    """Ask every name server for something: what is to be changed in each of them fails before its first change, if one
    does not answer."""
    for address in calls.session.config.name_servers:
        await calls.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
