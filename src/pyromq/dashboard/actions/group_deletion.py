"""A group is deleted, with its offsets and what waits in its retry topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...admin import groups
from ...admin.changes.group_deletion import delete_group, delete_rest, parts_of_group
from ...admin.cluster import check_name_servers
from ...model.names import is_system_group
from ..acting.plan import ActionPlan, NotPossible, Sentence, sentence
from ..acting.works import Work
from ..views.missing import NotThere
from .masters import masters

if TYPE_CHECKING:
    from ...admin.changes.group_deletion import GroupParts
    from ..watch.watched import ClusterWatch


class GroupDeletionWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keep_offsets`: a group of this name goes on where this one was."""

    keep_offsets: bool = False
    with_dead_letters: bool = False


async def plan(cluster: ClusterWatch, name: str, wanted: GroupDeletionWanted) -> ActionPlan:
    """Plan the deletion: what goes with the group, and what stays."""
    if is_system_group(name):
        raise NotPossible(sentence("{group} is the system's own and stays as it is", group=name))
    places = await masters(cluster)
    known = {group for place in places for group in await groups.configs(cluster.calls, place.address)}
    if name not in known:
        raise NotThere("group", name, known)
    parts = await parts_of_group(cluster.calls, places, name)
    await check_name_servers(cluster.calls)
    return ActionPlan(
        does=sentence("Delete the group {group}", group=name),
        rows=[
            {
                "broker": one.place.name,
                "members": one.members,
                "offsets": 0 if wanted.keep_offsets else one.offsets,
                "lag": one.lag,
                "retries": one.retries,
                "dead": one.dead_letters if wanted.with_dead_letters else 0,
            }
            for one in parts.on_brokers
        ],
        warnings=_warnings(name, parts, wanted),
        rests_on={"members online": parts.members, "dead letters": parts.dead_letters},
        confirm=name,
        before={"members": parts.members, "lag": sum(one.lag for one in parts.on_brokers)},
        work=(places, wanted, parts.dead_letters),
    )


async def apply(cluster: ClusterWatch, plan: ActionPlan, work: Work) -> None:
    """Delete the group on one broker after the other, and then what it leaves."""
    places, wanted, dead = plan.work
    work.expect(len(places) + 1)
    deleted = [
        await work.attempt(
            place.name, delete_group(cluster.calls, place, plan.confirm, keep_offsets=wanted.keep_offsets)
        )
        for place in places
    ]
    if all(deleted):
        rest = delete_rest(cluster.calls, plan.confirm, places, with_dead_letters=wanted.with_dead_letters or not dead)
        await work.attempt("retry topic", rest)


def _warnings(name: str, parts: GroupParts, wanted: GroupDeletionWanted) -> list[Sentence]:
    found = []
    if parts.members:
        found.append(
            sentence(
                "{n} members of {group} are online: the group comes back with default settings while they run. Stop "
                "them first.",
                n=parts.members,
                group=name,
            )
        )
    if parts.dead_letters and not wanted.with_dead_letters:
        found.append(sentence("Its {n} dead letters stay.", n=parts.dead_letters))
    return found
