"""Elected sets as etcd has them: added to reports of replicas, and switched by a wish that their members read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...admin.replicas import ReplicaStatus, SetReport
from ...ambient import SystemClock
from ...broker.elected.set_keys import SetKeys
from ...broker.election.set_state import decode_state
from ...coordination.etcd import EtcdCoordination
from ...coordination.etcd_settings import EtcdSettings
from ...coordination.settings import CoordinationSettings
from ...coordination.store import Put, Verdict
from ...errors import PyroError

_WISH_S = 10.0  # then it is forgotten, whatever came of it
_POLL_S = 0.1


def etcd_of(endpoints: Iterable[str]) -> EtcdSettings:
    """Return how this command reaches the etcd of brokers; user, password and CA are told by the environment."""
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
    keys = _keys(found)
    try:
        async with _etcd(found) as etcd:
            snapshot = await etcd.read(keys.prefix)
        stored = snapshot.keys.get(keys.state)
        if stored is None:
            found.trouble = f"etcd has no state of {found.name} yet"
            return
        state, alive, places = decode_state(stored.value), keys.seen_in(snapshot), keys.places_in(snapshot)
    except PyroError as fault:
        found.trouble = str(fault)
        return
    found.epoch, found.set_epoch = state.epoch, state.set_epoch
    found.switched_ms = state.elected_ms or None
    found.switched_why = f"replica {state.master} {'founded the set' if state.epoch == 1 else 'was elected by its set'}"
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


async def switch_elected(found: SetReport, replica: int, wait_s: float) -> int:
    """Let the members of an elected set make a replica the master, and return its epoch.

    The master stops taking sends, waits until the others have its log and gives way; the others let this one go first.
    PyroError if it does not lead in time: then the wish is taken back."""
    keys, clock = _keys(found), SystemClock()
    deadline = clock.monotonic() + wait_s
    async with _etcd(found) as etcd:
        wish = await etcd.hold(_WISH_S)
        try:
            if (await etcd.change({}, [Put(keys.wanted, b"%d" % replica, wish)])).verdict is not Verdict.DONE:
                raise PyroError(f"etcd did not take the wish for replica {replica}: try again")
            while clock.monotonic() < deadline:
                stored = (await etcd.read(keys.state)).keys.get(keys.state)
                state = None if stored is None else decode_state(stored.value)
                if state is not None and state.master == replica:
                    return state.epoch
                await wish.renew()
                await clock.sleep(_POLL_S)
        finally:
            await wish.release()
    raise PyroError(f"replica {replica} of {found.name} does not lead after {wait_s:g} s: see its log")


def _keys(found: SetReport) -> SetKeys:
    prefix = found.settings.get("etcdPrefix", "/pyromq").rstrip("/")
    return SetKeys(f"{prefix}/{found.cluster}/{found.name}/")


def _etcd(found: SetReport) -> EtcdCoordination:
    endpoints = [each for each in found.settings.get("etcdEndpoints", "").split(";") if each]
    return EtcdCoordination(etcd_of(endpoints), SystemClock())
