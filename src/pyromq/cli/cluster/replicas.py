"""`pyromq cluster status` and `pyromq cluster switch`: replicas of brokers, who is master, and another master."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ... import admin
from ...errors import PyroError
from ..terminal.options import seconds
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import command, unknown
from .set_reports import as_row, set_reports, troubles

if TYPE_CHECKING:
    from ...admin.replicas import ReplicaStatus, SetReport

_POLL_S = 0.5


@command("pyromq cluster status", "pyromq cluster status broker-a --json")
@click.argument("name", required=False, metavar="[BROKER]")
@talks
async def status(shell: Shell, name: str | None) -> None:
    """Show the replicas of each broker name: roles, epochs, how far each is, the in-sync set, the last switch.

    Of brokers in controller mode the controller is asked that their settings name, of elected sets etcd. Exit code 1 if
    a replica does not answer, a set has no master, or fewer than minInSyncReplicas are in sync."""
    sets = await set_reports(shell.calls, name)
    if shell.as_json:
        shell.rows([as_row(found) for found in sets])
    else:
        for found in sets:
            shell.report(as_row(found))
    if not sets:
        shell.say("no broker is registered")
    shell.end(any(troubles(found) for found in sets))


@command("pyromq cluster switch broker-a", "pyromq cluster switch broker-a --to 2 --yes")
@click.argument("name", metavar="BROKER")
@click.option("--to", "to", type=int, metavar="ID", help="The replica to be master.  [default: who has the most]")
@click.option("--wait", "wait_s", type=seconds(), default=30.0, show_default=True, help="Seconds until it leads.")
@changes
async def switch(shell: Shell, name: str, to: int | None, wait_s: float) -> None:
    """Make another replica of a broker name the master, after a preview.

    Only replicas that are in sync can be chosen. The master of an elected set gives way in order, and loses nothing; in
    controller mode sends fail for seconds, and what the old master acknowledges meanwhile may be lost."""
    (found,) = await set_reports(shell.calls, name)
    chosen = _chosen(found, to)
    plan = [
        {"id": one.id, "address": one.address, "role": one.role, "lag": one.lag}
        | {"inSync": one.in_sync, "becomes": "master" if one is chosen else "slave"}
        for one in found.replicas
    ]
    shell.about_to(f"make replica {chosen.id} ({chosen.address}) the master of {name}", plan)
    if found.kind == admin.replicas.ELECTED:
        from .elected_sets import switch_elected

        epoch: int | None = await switch_elected(found, chosen.id, wait_s)
    else:
        now_ms = shell.session.clock.now_ms()
        epoch = (await admin.replicas.elect(shell.calls, found.leader, found, chosen.id, now_ms)).master_epoch
    shell.say(f"{chosen.address} is elected, epoch {epoch}")
    await _until_it_leads(shell, chosen, wait_s)
    shell.report({"broker": name, "master": chosen.id, "address": chosen.address, "epoch": epoch})


def _chosen(found: SetReport, to: int | None) -> ReplicaStatus:
    """Return who is to be master. PyroError says why nobody, or not this one, can be."""
    if found.kind == admin.replicas.CLASSIC:
        raise PyroError(
            f"{found.name} has the master that configuration files name: stop it, and start a slave that has all of "
            "its log with brokerRole=SYNC_MASTER and brokerId=0 (docs/replication.md)"
        )
    if found.trouble:
        raise PyroError(f"who of {found.name} is in sync cannot be asked: {found.trouble}")
    ready = [one for one in found.replicas if one.in_sync and one.answers and one.role != "master"]
    if to is None:
        if not ready:
            raise PyroError(f"no other replica of {found.name} is in sync and answers: pyromq cluster status")
        return max(ready, key=lambda one: (one.end or 0, -one.id))
    wanted = next((one for one in found.replicas if one.id == to), None)
    if wanted is None:
        raise unknown("replica", str(to), [str(one.id) for one in found.replicas], f"Of {found.name}, by its id")
    if wanted.role == "master":
        raise PyroError(f"replica {to} is the master of {found.name} already")
    if wanted not in ready:
        why = "is not in sync" if not wanted.in_sync else "does not answer"
        raise PyroError(f"replica {to} of {found.name} {why}, so messages would be lost: pyromq cluster status")
    return wanted


async def _until_it_leads(shell: Shell, chosen: ReplicaStatus, wait_s: float) -> None:
    """Wait until the name server shows the replica as master."""
    clock = shell.session.clock
    deadline = clock.monotonic() + wait_s
    while True:
        places = await admin.cluster.brokers(shell.calls)
        if any(place.is_master and place.address == chosen.address for place in places):
            return
        if clock.monotonic() > deadline:
            raise PyroError(
                f"{chosen.address} was elected, but no name server shows it as master after {wait_s:g} s: see its log"
            )
        await clock.sleep(_POLL_S)
