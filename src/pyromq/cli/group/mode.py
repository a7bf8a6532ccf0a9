"""`pyromq group mode`: whether a group pulls or pops a topic, where consumers leave that to the brokers.

Asked by Java's push consumers with `setClientRebalance(false)` and by our own; others go on pulling whatever is set.
Requests are RocketMQ's own (401, 402), so it works with Java's brokers too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...model.names import is_retry
from ...text.values import plural
from ..terminal.exits import REFUSED
from ..terminal.options import one_broker
from ..terminal.printing import print_lines
from ..terminal.shell import Shell, changes
from ..terminal.tree import Fail, command

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace


@command(
    "pyromq group mode billing",
    "pyromq group mode billing orders pop --dry-run",
    "pyromq group mode billing orders pop --share 2 --yes      each pops its own queues and those of two others",
    "pyromq group mode billing orders pull --yes",
)
@click.argument("name", metavar="GROUP")
@click.argument("topic", required=False)
@click.argument("mode", required=False, type=click.Choice(["pop", "pull"], case_sensitive=False))
@click.option(
    "--share", type=click.IntRange(min=0), help="With pop: members whose queues one pops besides its own.  [0: all]"
)
@one_broker
@changes
async def mode(
    shell: Shell, name: str, topic: str | None, mode: str | None, share: int | None, broker: str | None
) -> None:
    """Show whether GROUP pulls or pops, or set it for TOPIC.

    It counts for consumers that let the brokers assign their queues (Java: setClientRebalance(false), ours:
    mode="server"). It takes effect within some 20 seconds, when they ask again; a queue that one still pulls is popped
    by nobody.
    """
    places = await shell.masters_with(name, broker)
    if share is not None and mode != "pop":
        raise click.UsageError("--share goes with pop: who pulls has queues of its own")
    if mode is None or topic is None:
        shell.rows(await _shown(shell, places, name, topic), _NOTHING.format(name=name))
        return
    if is_retry(topic):
        raise Fail(f"{topic} is a retry topic: those are always pulled, or popped with their topic", REFUSED)
    await shell.topic(topic, places)
    having = [p for p in places if await admin.topics.config(shell.calls, p.address, topic) is not None]
    plan = await _plan(shell, having, name, topic, mode.upper(), share or 0)
    await _warn_pullers(shell, having, name, mode)
    shell.about_to(f"let group {name} {mode} {topic}, where its members leave that to the brokers", plan)
    for place in having:
        await admin.groups.set_mode(shell.calls, place.address, name, topic, mode.upper(), share or 0)
    shell.rows(await _shown(shell, having, name, topic))


_NOTHING = "no mode is set for {name}: brokers go by defaultMessageRequestMode (PULL unless set otherwise)"


async def _shown(shell: Shell, places: list[BrokerPlace], name: str, topic: str | None) -> list[dict[str, Any]]:
    found = [(place, await admin.groups.modes(shell.calls, place.address, name)) for place in places]
    rows = [
        _row(place, name, one.topic, one.mode.value, one.pop_share_queue_num)
        for place, modes in found
        for one in modes
        if topic in (None, one.topic)
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["broker"]))


def _row(place: BrokerPlace, name: str, topic: str, mode: str, share: int) -> dict[str, Any]:
    shared = "" if mode == "PULL" else "all" if share <= 0 else str(share)
    return {"group": name, "topic": topic, "broker": place.name, "mode": mode, "share": shared}


async def _plan(
    shell: Shell, places: list[BrokerPlace], name: str, topic: str, mode: str, share: int
) -> list[dict[str, Any]]:
    before = {row["broker"]: row["mode"] for row in await _shown(shell, places, name, topic)}
    return [_row(place, name, topic, mode, share) | {"before": before.get(place.name, "not set")} for place in places]


async def _warn_pullers(shell: Shell, places: list[BrokerPlace], name: str, mode: str) -> None:
    """Warn of members that do not ask brokers for their queues: they pull, and get again what others pop."""
    from ...admin.progress.group_state import online_in

    if mode != "pop":
        return
    online = await online_in(shell.calls, places, name)
    members = {one.client_id for each in online.values() for one in each.connection_set}
    if members:
        print_lines(
            f"{plural(len(members), 'member')} of {name} online. Those that share out queues among themselves (Java's "
            "default, setClientRebalance(true)) go on pulling and would get what others pop: "
            "pyromq doctor names them once the mode is set",
            err=True,
        )
