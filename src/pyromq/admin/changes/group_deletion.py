"""Groups deleted: what goes with them, and what stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...model.names import dlq_topic, retry_topic
from .. import groups, settings, topics
from ..progress.group_state import PROXY, online_in, queues_of
from .topic_deletion import delete_topic

if TYPE_CHECKING:
    from ..calls import Calls
    from ..cluster import BrokerPlace

SENT_BY_ID = "PYROMQ_DLQ"  # namespace of the name servers' table: by group, the letters that were sent out of turn


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """What a broker has of a group. `offsets`: queues that it has an offset in; `retries`: of `lag`, those to be tried
    again."""

    place: BrokerPlace
    members: int
    offsets: int
    lag: int
    retries: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What deleting a group would take. `by_proxy`: members that brokers do not know, by their proxy."""

    on_brokers: list[GroupPart]
    by_proxy: dict[str, int]

    @property
    def members(self) -> int:
        """Return how many are online: a member beats to every broker, so the broker that sees most sees all."""
        return max((one.members for one in self.on_brokers), default=0) + sum(self.by_proxy.values())

    @property
    def dead_letters(self) -> int:
        return sum(one.dead_letters for one in self.on_brokers)


async def parts_of_group(calls: Calls, places: Sequence[BrokerPlace], name: str) -> GroupParts:
    """Return what these brokers have of the group."""
    online = await online_in(calls, places, name)
    rows = await queues_of(calls, places, name, None)
    dead = await topics.queues(calls, places, dlq_topic(name))
    found = []
    for place in places:
        here = [row for row in rows if row["broker"] == place.name]
        found.append(
            GroupPart(
                place=place,
                members=len(online[place.name].connection_set) if place.name in online else 0,
                offsets=len(here),
                lag=sum(row["lag"] for row in here),
                retries=sum(row["lag"] for row in here if row["topic"] == retry_topic(name)),
                dead_letters=sum(queue.count for queue in dead if queue.place == place),
            )
        )
    by_proxy = {at: len(each.connection_set) for at, each in online.items() if at.startswith(PROXY)}
    return GroupParts(found, by_proxy)


async def delete_rest(calls: Calls, name: str, places: Sequence[BrokerPlace], *, with_dead_letters: bool) -> None:
    """Delete what stays behind a group that was deleted on its brokers: its retry topic, and its dead letters."""
    await delete_topic(calls, retry_topic(name), places)
    if with_dead_letters:
        await delete_letters(calls, name, places)


async def delete_group(calls: Calls, place: BrokerPlace, name: str, *, keep_offsets: bool) -> None:
    """Delete the group on one broker."""
    await groups.delete(calls, place.address, name, with_offsets=not keep_offsets)


async def delete_letters(calls: Calls, group: str, places: Iterable[BrokerPlace]) -> None:
    """Delete the topic of the group's dead letters, and what is known of those that were sent again."""
    await delete_topic(calls, dlq_topic(group), places)
    if await settings.kv_get(calls, SENT_BY_ID, group):
        await settings.kv_delete(calls, SENT_BY_ID, group)
