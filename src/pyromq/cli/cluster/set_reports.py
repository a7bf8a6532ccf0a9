"""How sets of replicas are, for `pyromq cluster status`, `cluster switch` and `doctor`, and what is wrong with one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import admin
from ...errors import PyroError
from ..terminal.tree import unknown

if TYPE_CHECKING:
    from ...admin.calls import Calls
    from ...admin.replicas import ReplicaStatus, SetReport
    from ...coordination.etcd_settings import EtcdSettings


async def set_reports(calls: Calls, name: str | None = None) -> list[SetReport]:
    """Return how each set of replicas is, or the one of this name."""
    places = await admin.cluster.brokers(calls)
    names = sorted({(place.cluster, place.name) for place in places})
    if name is not None and name not in {known for _, known in names}:
        raise unknown("broker", name, [known for _, known in names])
    sets = []
    for cluster_name, known in names:
        if name in (None, known):
            members = [place for place in places if (place.cluster, place.name) == (cluster_name, known)]
            found = await admin.replicas.report(calls, members)
            if found.kind == admin.replicas.ELECTED:
                await add_elected_state(found)
            sets.append(found)
    return sets


def as_row(found: SetReport) -> dict[str, Any]:
    master = found.master
    row: dict[str, Any] = {
        "cluster": found.cluster,
        "broker": found.name,
        "mastersAreChosenBy": {"classic": "configuration"}.get(found.kind, found.kind),
        "master": None if master is None else master.id,
        "epoch": found.epoch,
        "inSync": found.in_sync,
        "minInSyncReplicas": found.minimum,
    }
    if found.leader:
        row["controller"] = found.leader
    if found.switched_ms:
        row["lastSwitchMs"] = found.switched_ms
        row["lastSwitchWhy"] = found.switched_why
    if worries := troubles(found):
        row["troubles"] = "; ".join(worries)
    return row | {"replicas": [_replica_row(one) for one in found.replicas]}


def _replica_row(one: ReplicaStatus) -> dict[str, Any]:
    return {
        "id": one.id,
        "role": one.role,
        "address": one.address,
        "answers": one.answers,
        "inSync": one.in_sync,
        "epoch": one.epoch,
        "logEnd": one.end,
        "lagBytes": one.lag,
        "bytesPerSecond": one.bytes_per_second,
        "caughtUpInSeconds": one.caught_up_in_s,
    }


def troubles(found: SetReport) -> list[str]:
    """Return what is wrong with a set, for people."""
    worries = [found.trouble] if found.trouble else []
    if found.master is None:
        worries.append("it has no master")
    away = [str(one.id) for one in found.replicas if not one.answers]
    if away:
        worries.append(f"replica {', '.join(away)} does not answer")
    known = [one for one in found.replicas if one.in_sync is not None]
    if known and len(found.in_sync) < found.minimum:
        worries.append(f"{len(found.in_sync)} in sync, and minInSyncReplicas is {found.minimum}: sends are refused")
    return worries


def etcd_of(endpoints: Iterable[str]) -> EtcdSettings:
    """Return how this command reaches the etcd of brokers; user, password and CA are told by the environment."""
    from pathlib import Path

    from ...coordination.settings import CoordinationSettings

    ca = os.environ.get("PYROMQ_ETCD_CA")
    facts: dict[str, Any] = {
        "etcd_endpoints": tuple(endpoints),
        "etcd_user": os.environ.get("PYROMQ_ETCD_USER", ""),
        "etcd_password": os.environ.get("PYROMQ_ETCD_PASSWORD", ""),
        "etcd_trust_cert_path": Path(ca) if ca else None,
    }
    return CoordinationSettings(**facts).etcd()


async def add_elected_state(found: SetReport) -> None:
    """Add what the members of an elected set have written in etcd: who leads, the in-sync set, how far each is."""
    from ...ambient import SystemClock
    from ...broker.elected.set_keys import SetKeys
    from ...broker.election.set_state import decode_state
    from ...coordination.etcd import EtcdCoordination

    endpoints = [each for each in found.settings.get("etcdEndpoints", "").split(";") if each]
    keys = SetKeys(f"/pyromq/{found.cluster}/{found.name}/")
    try:
        async with EtcdCoordination(etcd_of(endpoints), SystemClock()) as etcd:
            snapshot = await etcd.read(keys.prefix)
        stored = snapshot.keys.get(keys.state)
        if stored is None:
            found.trouble = f"etcd has no state of {found.name} yet"
            return
        state, alive, places = decode_state(stored.value), keys.seen_in(snapshot), keys.places_in(snapshot)
    except PyroError as fault:
        found.trouble = str(fault)
        return
    from ...admin.replicas import ReplicaStatus

    found.epoch, found.set_epoch = state.epoch, state.set_epoch
    found.switched_ms, found.switched_why = state.written_ms, f"written by replica {state.written_by}"
    found.settings["minInSyncReplicas"] = str(state.minimum)
    by_address = {one.address: one for one in found.replicas}
    for replica, place in sorted(places.items()):
        one = by_address.get(place.address)
        if one is None:
            one = ReplicaStatus(replica, place.address, "slave")
            found.replicas.append(one)
        one.id, one.in_sync = replica, replica in state.in_sync
        one.role = "master" if replica == state.master else "slave"
        if replica in alive:
            one.epoch, one.end = alive[replica].epoch, alive[replica].end if one.end is None else one.end
    found.replicas.sort(key=lambda each: each.id)
