"""Elected sets as etcd has them: shown, switched by a wish that their members read, and rid of replicas that are gone.

`pyromq cluster` and `doctor` ask by reports of replicas; `pyromq controller` is handed `SetsInEtcd`.
"""

from __future__ import annotations

from ...admin.checkup.etcd_access import etcd_of
from ...admin.replicas import ReplicaStatus, SetReport
from ...ambient import Clock, SystemClock
from ...broker.elected.set_keys import SetKeys
from ...broker.election.set_state import decode_state
from ...controller.elected_sets import ElectedReplica, ElectedView
from ...coordination.etcd import EtcdCoordination
from ...coordination.store import ABSENT, Coordination, Put, Snapshot, Verdict
from ...errors import PyroError

_WISH_S = 10.0  # then it is forgotten, whatever came of it
_POLL_S = 0.1
_MOST_ATTEMPTS = 5  # of a change while the set changes, too


class SetsInEtcd:
    """Implements `ElectedSets` of controllers. Event loop only. `prefix`: what all keys begin with (etcdPrefix)."""

    def __init__(self, etcd: Coordination, prefix: str, clock: Clock) -> None:
        self._etcd, self._root, self._clock = etcd, f"{prefix.rstrip('/')}/", clock

    async def named(self, name: str) -> list[ElectedView]:
        snapshot = await self._etcd.read(self._root)
        clusters = [cluster for cluster, known in self._sets_in(snapshot) if known == name]
        return [view for cluster in clusters if (view := self._view(snapshot, cluster, name)) is not None]

    async def addresses(self) -> list[str]:
        snapshot = await self._etcd.read(self._root)
        sets = self._sets_in(snapshot)
        return [place.address for each in sets for place in self._keys(*each).places_in(snapshot).values()]

    def _sets_in(self, snapshot: Snapshot) -> list[tuple[str, str]]:
        """Return cluster and name of each set that has a state."""
        parts = [key.removeprefix(self._root).split("/") for key in snapshot.keys]
        return sorted((part[0], part[1]) for part in parts if len(part) == 3 and part[2] == "state")

    async def one(self, cluster: str, name: str) -> ElectedView | None:
        """Return this set; None: the store has no state of it."""
        return self._view(await self._etcd.read(self._keys(cluster, name).prefix), cluster, name)

    async def switch(self, found: ElectedView, replica: int, wait_s: float) -> ElectedView:
        """Let the members make a replica the master, and return the set then.

        The master stops taking sends, waits until the others have its log and gives way; the others let this one go
        first. PyroError if it does not lead in time: then the wish is taken back."""
        keys, clock = self._keys(found.cluster, found.name), self._clock
        deadline = clock.monotonic() + wait_s
        wish = await self._etcd.hold(_WISH_S)
        try:
            if (await self._etcd.change({}, [Put(keys.wanted, b"%d" % replica, wish)])).verdict is not Verdict.DONE:
                raise PyroError(f"etcd did not take the wish for replica {replica}: try again")
            while clock.monotonic() < deadline:
                now = await self.one(found.cluster, found.name)
                if now is not None and now.master == replica:
                    return now
                await wish.renew()
                await clock.sleep(_POLL_S)
        finally:
            await wish.release()
        raise PyroError(f"replica {replica} of {found.name} does not lead after {wait_s:g} s: see its log")

    async def forget(self, found: ElectedView, replica: int) -> None:
        """Take a replica that is gone for good out of the set. PyroError: it is there, in sync, or not known.

        Its number is free then. It is done only if neither the in-sync set nor that replica has changed meanwhile."""
        keys = self._keys(found.cluster, found.name)
        for _ in range(_MOST_ATTEMPTS):
            snapshot = await self._etcd.read(keys.prefix)
            view = self._view(snapshot, found.cluster, found.name)
            refuse_forgetting(view, found.name, replica)
            expect = {key: snapshot.keys[key].version for key in (keys.state, keys.place(replica))}
            outcome = await self._etcd.change(expect | {keys.alive(replica): ABSENT}, deletes=[keys.place(replica)])
            if outcome.verdict is Verdict.DONE:
                return
            if outcome.verdict is Verdict.UNKNOWN:
                raise PyroError(f"etcd does not say whether replica {replica} was forgotten: see pyromq cluster status")
        raise PyroError(f"{found.name} changes all the time: try again")

    def _keys(self, cluster: str, name: str) -> SetKeys:
        return SetKeys(f"{self._root}{cluster}/{name}/")

    def _view(self, snapshot: Snapshot, cluster: str, name: str) -> ElectedView | None:
        keys = self._keys(cluster, name)
        stored = snapshot.keys.get(keys.state)
        if stored is None:
            return None
        state, alive, places = decode_state(stored.value), keys.seen_in(snapshot), keys.places_in(snapshot)
        return ElectedView(
            cluster=cluster,
            name=name,
            master=state.master,
            epoch=state.epoch,
            set_epoch=state.set_epoch,
            minimum=state.minimum,
            switched_ms=state.elected_ms,
            switched_why=f"replica {state.master} {'founded' if state.epoch == 1 else 'was elected by'} the set",
            replicas=tuple(
                ElectedReplica(
                    replica,
                    place.address,
                    replica in state.in_sync,
                    replica in alive,
                    alive[replica].epoch if replica in alive else None,
                    alive[replica].end if replica in alive else None,
                )
                for replica, place in sorted(places.items())
            ),
        )


def refuse_forgetting(view: ElectedView | None, name: str, replica: int) -> None:
    """Raise PyroError where a replica must not be forgotten."""
    one = None if view is None else next((each for each in view.replicas if each.id == replica), None)
    if one is None:
        raise PyroError(f"{name} has no replica {replica}: pyromq cluster status shows all")
    if one.is_alive:
        raise PyroError(f"replica {replica} of {name} runs, at {one.address}: stop it first")
    if one.is_in_sync:
        raise PyroError(
            f"replica {replica} of {name} is in the in-sync set, which is not made smaller than minInSyncReplicas: "
            "start another replica, which takes its place there, then forget this one"
        )


async def add_elected_state(found: SetReport) -> None:
    """Add what the members of an elected set have written in etcd: who leads, the in-sync set, how far each is."""
    try:
        async with _etcd(found) as etcd:
            view = await _sets(found, etcd).one(found.cluster, found.name)
    except PyroError as fault:
        found.trouble = str(fault)
        return
    if view is None:
        found.trouble = f"etcd has no state of {found.name} yet"
        return
    found.epoch, found.set_epoch = view.epoch, view.set_epoch
    found.switched_ms, found.switched_why = view.switched_ms or None, view.switched_why
    found.settings["minInSyncReplicas"] = str(view.minimum)
    by_address = {one.address: one for one in found.replicas}
    for replica in view.replicas:
        one = by_address.get(replica.address)
        if one is None:
            one = ReplicaStatus(replica.id, replica.address, "slave")
            found.replicas.append(one)
        one.id, one.in_sync, one.is_alive = replica.id, replica.is_in_sync, replica.is_alive
        one.role = "master" if replica.id == view.master else "slave"
        if replica.is_alive:
            one.epoch, one.end = replica.epoch, replica.end if one.end is None else one.end
    found.replicas.sort(key=lambda each: each.id)


async def switch_elected(found: SetReport, replica: int, wait_s: float) -> int:
    """Let the members of an elected set make a replica the master, and return its epoch. PyroError: it is not."""
    async with _etcd(found) as etcd:
        sets = _sets(found, etcd)
        return (await sets.switch(await _known(sets, found), replica, wait_s)).epoch


async def forget_elected(found: SetReport, replica: int) -> None:
    """Take a replica that is gone for good out of an elected set. PyroError: it must not be."""
    async with _etcd(found) as etcd:
        sets = _sets(found, etcd)
        await sets.forget(await _known(sets, found), replica)


async def _known(sets: SetsInEtcd, found: SetReport) -> ElectedView:
    view = await sets.one(found.cluster, found.name)
    if view is None:
        raise PyroError(f"etcd has no state of {found.name} yet")
    return view


def _sets(found: SetReport, etcd: Coordination) -> SetsInEtcd:
    return SetsInEtcd(etcd, found.settings.get("etcdPrefix", "/pyromq"), SystemClock())


def _etcd(found: SetReport) -> EtcdCoordination:
    endpoints = [each for each in found.settings.get("etcdEndpoints", "").split(";") if each]
    return EtcdCoordination(etcd_of(endpoints), SystemClock())
