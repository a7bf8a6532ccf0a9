"""`pyromq cluster`: clusters, and how their brokers are."""

from __future__ import annotations

from typing import Any

import click

from ... import admin
from ...errors import CallFailed
from ...model.wire_text import decimal_number, whole_number
from ..terminal.shell import Shell, talks
from ..terminal.tree import Tree, command, unknown
from .replicas import forget, status, switch


@click.group(cls=Tree)
def cluster() -> None:
    """Clusters and their brokers."""


cluster.add_command(status)
cluster.add_command(switch)
cluster.add_command(forget)


@command("pyromq cluster list", "pyromq cluster list --json", of=cluster, name="list")
@talks
async def list_clusters(shell: Shell) -> None:
    """List clusters: brokers, messages a second in and out. Exit code 1 if a broker does not answer."""
    rows: dict[str, dict[str, Any]] = {}
    for one in await broker_rows(shell, None):
        fresh = {"cluster": one["cluster"], "masters": 0, "slaves": 0, "inPerSecond": 0.0, "outPerSecond": 0.0}
        row = rows.setdefault(one["cluster"], fresh | {"away": 0})
        row["masters" if one["id"] == 0 else "slaves"] += 1
        row["inPerSecond"] += one["inPerSecond"] or 0.0
        row["outPerSecond"] += one["outPerSecond"] or 0.0
        row["away"] += not one["answers"]
    shell.rows([rows[name] for name in sorted(rows)], "no broker is registered")
    shell.end(any(row["away"] for row in rows.values()))


@command("pyromq cluster brokers", "pyromq cluster brokers DefaultCluster --json", of=cluster)
@click.argument("name", required=False, metavar="[CLUSTER]")
@talks
async def brokers(shell: Shell, name: str | None) -> None:
    """List brokers: address, version, rates, disk, whether they answer. Exit code 1 if one does not."""
    rows = await broker_rows(shell, name)
    shell.rows(rows, "no broker is registered")
    shell.end(not all(row["answers"] for row in rows))


async def broker_rows(shell: Shell, wanted: str | None) -> list[dict[str, Any]]:
    places = await admin.cluster.brokers(shell.calls)
    known = sorted({place.cluster for place in places})
    if wanted is not None and wanted not in known:
        raise unknown("cluster", wanted, known)
    return [await _row(shell, place) for place in places if wanted in (None, place.cluster)]


async def _row(shell: Shell, place: admin.cluster.BrokerPlace) -> dict[str, Any]:
    row: dict[str, Any] = {"cluster": place.cluster, "broker": place.name, "id": place.id, "address": place.address}
    try:
        runtime = await admin.cluster.runtime(shell.calls, place.address)
    except CallFailed:
        runtime = {}
    rates = [
        admin.cluster.first_number(runtime, *names)
        for names in (("putTps",), ("getTransferredTps", "getTransferedTps"))
    ]
    into, out = (None if rate is None else round(rate, 1) for rate in rates)
    now, morning = (whole_number(runtime.get(f"msgPutTotalToday{when}")) for when in ("Now", "Morning"))
    disk = decimal_number(runtime.get("commitLogDiskRatio"))
    return row | {
        "answers": bool(runtime),
        "version": runtime.get("brokerVersionDesc", ""),
        "inPerSecond": into,
        "outPerSecond": out,
        "diskPercent": None if disk is None else round(disk * 100),
        "messagesToday": None if now is None or morning is None else now - morning,
    }
