"""`pyromq group delete`: a group, and what goes with it or stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...model.foreign_text import shell_word
from ...text.values import plural
from ..terminal.printing import print_lines
from ..terminal.shell import Shell, changes
from ..terminal.tree import command
from ..terminal.validation import check_name_servers, check_own_group

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace


@command(
    "pyromq group delete billing --dry-run",
    "pyromq group delete billing --keep-offsets --yes",
    "pyromq group delete billing --with-dead-letters --yes",
)
@click.argument("name", metavar="GROUP")
@click.option("--keep-offsets", is_flag=True, help="A group of this name goes on where this one was.")
@click.option("--with-dead-letters", "with_dead", is_flag=True, help="Delete its dead letters too; else they stay.")
@changes
async def delete(shell: Shell, name: str, keep_offsets: bool, with_dead: bool) -> None:
    """Delete a group, with its offsets and what waits in its retry topic. Its dead letters stay unless told otherwise.

    `pyromq dlq list GROUP` goes on showing those that stay, and `dlq resend GROUP --to-topic` sends them.
    """
    from ...admin.changes.group_deletion import delete_group, delete_rest

    places = await shell.masters_with(name)
    check_own_group(name)
    plan = await _plan(shell, name, places, keep_offsets)
    await check_name_servers(shell)
    dead = sum(one["deadLetters"] for one in plan)
    if members := max((one["membersOnline"] for one in plan), default=0):
        print_lines(
            f"WARNING: {plural(members, 'member')} of {name} online: the group comes back with default settings "
            "while they run. Stop them first",
            err=True,
        )
    shell.about_to(_in_words(name, plan, keep_offsets=keep_offsets, with_dead=with_dead), plan)
    for place in places:
        await delete_group(shell.calls, place, name, keep_offsets=keep_offsets)
    await delete_rest(shell.calls, name, places, with_dead_letters=with_dead or not dead)
    shell.rows([one | {"deleted": True} for one in plan]) if shell.as_json else shell.say(f"group {name} is deleted")
    if dead and not with_dead:
        shell.say(f"Its {plural(dead, 'dead letter')} stay. See them: pyromq dlq list {shell_word(name)}")


async def _plan(shell: Shell, name: str, places: list[BrokerPlace], keep_offsets: bool) -> list[dict[str, Any]]:
    from ...admin.changes.group_deletion import parts_of_group

    return [
        {"group": name, "broker": one.place.name, "membersOnline": one.members}
        | {"offsets": 0 if keep_offsets else one.offsets, "lag": one.lag}
        | {"retries": one.retries, "deadLetters": one.dead_letters}
        for one in (await parts_of_group(shell.calls, places, name)).on_brokers
    ]


def _in_words(name: str, plan: list[dict[str, Any]], *, keep_offsets: bool, with_dead: bool) -> str:
    """Return what goes with the group, and what stays."""
    retries, dead = (sum(one[what] for one in plan) for what in ("retries", "deadLetters"))
    letters = f"its {plural(dead, 'dead letter')}"
    goes = [f"group {name}"] if keep_offsets else [f"group {name}", "its offsets"]
    goes += [f"its {plural(retries, 'message')} to be tried again"] if retries else []
    goes += [letters] if dead and with_dead else []
    stays = f", but not {letters}: those stay, unless --with-dead-letters is given" if dead and not with_dead else ""
    return f"delete {' and '.join(goes)}{stays}"
