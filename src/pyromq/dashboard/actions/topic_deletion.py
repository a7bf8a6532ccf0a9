"""A topic is deleted with its messages, on all brokers and name servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...admin import groups, offsets, topics
from ...admin.changes.topic_changes import is_servers_own
from ...admin.changes.topic_deletion import parts_of
from ...admin.cluster import BrokerPlace, check_name_servers
from ...admin.progress.group_state import online_in
from ..acting.plan import ActionPlan, NotPossible, Sentence, sentence
from ..acting.works import Work
from ..views.missing import NotThere
from .masters import masters

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch


class NothingWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """There is nothing to choose."""


async def plan(cluster: ClusterWatch, name: str, wanted: NothingWanted) -> ActionPlan:
    """Plan the deletion: what it takes, and which groups it hits."""
    places = await masters(cluster)
    parts = await parts_of(cluster.calls, places, name)
    if not parts:
        raise NotThere("topic", name, await topics.names(cluster.calls))
    for part in parts:
        if await is_servers_own(cluster.calls, part.place, name):
            raise NotPossible(sentence("{topic} is the system's own and stays as it is", topic=name))
    await check_name_servers(cluster.calls)
    hit = sorted({group for part in parts for group in part.groups if not groups.is_internal(group)})
    readers = [await _reader(cluster, [part.place for part in parts], name, group) for group in hit]
    count = sum(part.messages for part in parts)
    return ActionPlan(
        does=sentence("Delete the topic {topic} with {n} messages", topic=name, n=count),
        rows=[{"what": sentence("Broker"), "name": part.place.name, "messages": part.messages} for part in parts]
        + readers,
        warnings=[_warning(one, name) for one in readers if one["members"] or one["lag"]],
        rests_on={"groups": hit} | {f"members of {one['name']} online": one["members"] for one in readers},
        confirm=name,
        before={"messages": count, "brokers": [part.place.name for part in parts], "groups": hit},
        work=[part.place for part in parts],
    )


async def apply(cluster: ClusterWatch, plan: ActionPlan, work: Work) -> None:
    """Delete the topic on one broker after the other; in name servers only if no broker has it any more."""
    places, name = plan.work, plan.confirm
    work.expect(len(places) + 1)
    deleted = [
        await work.attempt(place.name, topics.delete_in_broker(cluster.calls, place.address, name)) for place in places
    ]
    if all(deleted):
        await work.attempt("name servers", topics.delete_in_name_servers(cluster.calls, name), right="Update")


async def _reader(cluster: ClusterWatch, places: list[BrokerPlace], topic: str, group: str) -> dict[str, Any]:
    online = await online_in(cluster.calls, places, group)
    members = {one.client_id for each in online.values() for one in each.connection_set}
    lag = sum([(await offsets.progress(cluster.calls, place.address, group, topic)).lag for place in places])
    return {"what": sentence("Group"), "name": group, "members": len(members), "lag": lag}


def _warning(reader: dict[str, Any], topic: str) -> Sentence:
    return sentence(
        "The group {group} consumes {topic}: {members} members are online, and {lag} messages wait for it.",
        group=reader["name"],
        topic=topic,
        members=reader["members"],
        lag=reader["lag"],
    )
