"""`pyromq cluster status`, `switch` and `forget`: replicas of brokers, another master, one that is gone for good."""

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
FAR_BEHIND = 16 << 20  # bytes: a master that gives way waits a second for the others to have its log


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
@click.option("--to", "to", type=int, metavar="ID", help="The replica to be master.  [default: one in sync]")
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


@command("pyromq cluster forget broker-a 4", "pyromq cluster forget broker-a 4 --dry-run")
@click.argument("name", metavar="BROKER")
@click.argument("replica", type=int, metavar="ID")
@changes
async def forget(shell: Shell, name: str, replica: int) -> None:
    """Take a replica that is gone for good out of its set, after a preview: its number is free then.

    Refused for one that runs, and for one that is in the in-sync set. A replica whose store still exists need not be
    forgotten: start it, and it follows."""
    (found,) = await set_reports(shell.calls, name)
    one = _gone(found, replica)
    left = [each.id for each in found.replicas if each is not one]
    plan = [{"id": one.id, "address": one.address, "inSync": one.in_sync, "answers": one.answers, "leaves": left}]
    shell.about_to(f"forget replica {replica} of {name}", plan)
    if found.kind == admin.replicas.ELECTED:
        from .elected_sets import forget_elected

        await forget_elected(found, replica)
    else:
        await admin.replicas.forget(shell.calls, found.leader, found, replica, shell.session.clock.now_ms())
    shell.say(f"replica {replica} of {name} is forgotten")
    shell.report({"broker": name, "forgotten": replica, "replicas": left})


def _gone(found: SetReport, replica: int) -> ReplicaStatus:
    """Return the replica that is to be forgotten. PyroError says why it must not be."""
    if found.kind == admin.replicas.CLASSIC:
        raise PyroError(
            f"nobody keeps a list of the slaves of {found.name}: name servers forget one two minutes after it has ended"
        )
    if found.trouble:
        raise PyroError(f"the replicas of {found.name} are not known now: {found.trouble}")
    one = next((each for each in found.replicas if each.id == replica), None)
    if one is None:
        raise unknown("replica", str(replica), [str(each.id) for each in found.replicas], f"Of {found.name}, by its id")
    if one.answers or one.is_alive:
        raise PyroError(f"replica {replica} of {found.name} runs, at {one.address}: stop it first")
    if one.in_sync:
        raise PyroError(
            f"replica {replica} of {found.name} is in the in-sync set: start another replica, which takes its place "
            "there, then forget this one"
        )
    return one


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
        if found.kind == admin.replicas.ELECTED:  # loses nothing: the same one as in the preview, unless it is behind
            return min(ready, key=lambda one: ((one.lag or 0) // FAR_BEHIND, one.id))
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
