"""Topics deleted: what goes with them, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import topics
from .topic_changes import present

if TYPE_CHECKING:
    from ..calls import Calls
    from ..cluster import BrokerPlace


@dataclass(frozen=True, slots=True)
class TopicPart:
    """What a broker has of a topic. `groups`: those that consume it there."""

    place: BrokerPlace
    messages: int
    groups: list[str]


async def parts_of(calls: Calls, places: Iterable[BrokerPlace], name: str) -> list[TopicPart]:
    """Return what deleting the topic would take, on those of the brokers that have it."""
    return [
        TopicPart(
            place,
            (await topics.stats(calls, place.address, name)).count,
            await topics.groups(calls, place.address, name),
        )
        for place, _ in await present(calls, places, name)
    ]


async def delete_topic(calls: Calls, name: str, places: Iterable[BrokerPlace]) -> None:
    """Delete the topic on those of the brokers that have it, and then in the name servers."""
    having = await present(calls, places, name)
    for place, _ in having:
        await topics.delete_in_broker(calls, place.address, name)
    if having:
        await topics.delete_in_name_servers(calls, name)
