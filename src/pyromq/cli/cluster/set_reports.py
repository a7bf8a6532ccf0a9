"""How sets of replicas are, for `pyromq cluster status`, `cluster switch` and `doctor`, and what is wrong with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import admin
from ..terminal.tree import unknown

if TYPE_CHECKING:
    from ...admin.calls import Calls
    from ...admin.replicas import ReplicaStatus, SetReport


async def set_reports(calls: Calls, name: str | None = None) -> list[SetReport]:
    """Return how each set of replicas is, or the one of this name."""
    from .elected_sets import add_elected_state

    if name is not None:
        known = sorted({place.name for place in await admin.cluster.brokers(calls)})
        if name not in known:
            raise unknown("broker", name, known)
    return await admin.replicas.reports(calls, add_elected_state, name)


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
        one = len(away) == 1
        worries.append(f"replica{'' if one else 's'} {', '.join(away)} {'does' if one else 'do'} not answer")
    known = [one for one in found.replicas if one.in_sync is not None]
    if known and len(found.in_sync) < found.minimum:
        worries.append(f"{len(found.in_sync)} in sync, and minInSyncReplicas is {found.minimum}: sends are refused")
    return worries
