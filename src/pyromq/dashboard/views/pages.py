"""The pages that are lists: topics, groups, brokers, clients, and what the checks found."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from ...admin import groups
from ...admin.cluster import BrokerPlace
from ...protocol.requests import RequestCode
from ..watch.figures import Unknown
from .asking import ask_one
from .lists import Listing, ListQuery, listing
from .rows import BrokerRow, GroupRow, TopicRow, broker_rows, group_rows, topic_rows

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """A connected client with the groups that it is in. `role`: consumer, producer or both."""

    client: str
    address: str
    role: str
    groups: list[str]
    language: str
    version: int
    brokers: list[str]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """As `pyromq doctor --json` has it."""

    check: str
    state: str
    text: str
    cure: str
    command: str


class CheckupPage(msgspec.Struct, frozen=True, kw_only=True):
    """`at_ms`: when the checks ran, 0 if they have not yet. `fault`: why they could not."""

    at_ms: int
    fault: str
    checks: list[Check]


class BrokersPage(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[BrokerRow]


class ClientsPage(msgspec.Struct, frozen=True, kw_only=True):
    clients: Listing[ClientRow]
    missing: list[str]


async def topics(cluster: ClusterWatch, wanted: ListQuery) -> Listing[TopicRow]:
    """Return a page of the topics."""
    rows = topic_rows(cluster.snapshot, system=wanted.system)
    return listing(rows, wanted, lambda row: row.name, "-in_per_second")


async def group_list(cluster: ClusterWatch, wanted: ListQuery) -> Listing[GroupRow]:
    """Return a page of the groups."""
    rows = group_rows(cluster.snapshot, system=wanted.system)
    return listing(rows, wanted, lambda row: row.name, "-lag")


async def brokers(cluster: ClusterWatch) -> BrokersPage:
    """Return every broker that the name server knows."""
    return BrokersPage(rows=broker_rows(cluster.snapshot))


async def clients(cluster: ClusterWatch, wanted: ListQuery) -> ClientsPage:
    """Ask every broker who is connected, and return a page of them."""
    found = await asyncio.gather(*(ask_one(place.name, _clients_of(cluster, place)) for place in cluster.places))
    merged: dict[str, ClientRow] = {}
    for place, rows in zip(cluster.places, found, strict=True):
        for row in [] if isinstance(rows, Unknown) else rows:
            merged[row.client] = _joined(merged.get(row.client), row, place.name)
    page = listing(
        list(merged.values()), wanted, lambda row: f"{row.client} {row.address} {' '.join(row.groups)}", "client"
    )
    silent = [f"{one.name}: {one.fault}" for one in cluster.snapshot.silent]
    return ClientsPage(clients=page, missing=silent + [each.unknown for each in found if isinstance(each, Unknown)])


async def _clients_of(cluster: ClusterWatch, place: BrokerPlace) -> list[ClientRow]:
    rows = []
    answer = await cluster.calls.ask(place.address, RequestCode.GET_ALL_PRODUCER_INFO)
    for group, members in answer.body.data.items():
        for one in members:
            address = (one.remote_ip or "").removeprefix("/")
            rows.append(_client(one.client_id, address, "producer", group, one.language, one.version, place.name))
    broker = next((one for one in cluster.snapshot.masters if one.address == place.address), None)
    for name, known in {} if broker is None else broker.groups.items():
        if known.members == 0:
            continue
        online = await groups.connections(cluster.calls, place.address, name)
        rows += [
            _client(each.client_id, each.client_addr, "consumer", name, each.language, each.version, place.name)
            for each in ([] if online is None else online.connection_set)
        ]
    return rows


def _client(
    client: str, address: str, role: str, group: str, language: str | None, version: int, broker: str
) -> ClientRow:
    return ClientRow(
        client=client,
        address=address,
        role=role,
        groups=[group],
        language=language or "",
        version=version,
        brokers=[broker],
    )


def _joined(known: ClientRow | None, row: ClientRow, broker: str) -> ClientRow:
    if known is None:
        return row
    return msgspec.structs.replace(
        known,
        role=known.role if known.role == row.role else "both",
        groups=sorted({*known.groups, *row.groups}),
        brokers=sorted({*known.brokers, broker}),
    )


async def checkup(cluster: ClusterWatch) -> CheckupPage:
    """Return what the checks found last."""
    found = cluster.checkup
    return CheckupPage(
        at_ms=found.at_ms,
        fault=found.fault,
        checks=[
            Check(check=one.check, state=one.state, text=one.text, cure=one.cure, command=one.command)
            for one in found.results
        ],
    )
