"""A topic is made, on all brokers or on one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ...admin import topics
from ...admin.changes.topic_changes import DEFAULT_QUEUES, MOST_QUEUES, TYPE, changed_topic, is_servers_own, new_topic
from ...admin.changes.topic_changes import present as having
from ...model.names import topic_fault
from ...model.topic import permission
from ..acting.plan import ActionPlan, NotPossible, sentence
from ..acting.works import Work
from .masters import masters

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch

Perm = Literal["rw", "r", "w", "none"]
Kind = Literal["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE"]
Queues = Annotated[int, msgspec.Meta(ge=1, le=MOST_QUEUES)]


class TopicWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`queues` on each broker. `broker`: the only one that gets the topic; empty: all do."""

    name: str
    queues: Queues = DEFAULT_QUEUES
    perm: Perm = "rw"
    kind: Kind = "UNSPECIFIED"
    broker: str = ""


async def plan(cluster: ClusterWatch, wanted: TopicWanted) -> ActionPlan:
    """Plan a topic. NotPossible: its name is wrong, or a broker has it."""
    if (fault := topic_fault(wanted.name)) is not None:
        raise NotPossible(sentence("No topic can be called that: {fault}", fault=fault))
    places = await masters(cluster, wanted.broker)
    if present := await having(cluster.calls, places, wanted.name):
        where = ", ".join(place.name for place, _ in present)
        raise NotPossible(sentence("The topic {topic} is there already, on {where}", topic=wanted.name, where=where))
    for place in places:
        if await is_servers_own(cluster.calls, place, wanted.name):
            raise NotPossible(sentence("{topic} is the system's own and stays as it is", topic=wanted.name))
    config = changed_topic(new_topic(wanted.name, wanted.queues), perm=wanted.perm)
    settings = {"queues": wanted.queues, "perm": permission(config.perm), "kind": wanted.kind}
    return ActionPlan(
        does=sentence("Create the topic {topic}", topic=wanted.name),
        rows=[{"broker": place.name} | settings for place in places],
        rests_on={"brokers": [place.name for place in places]},
        after=settings,
        work=(places, config, None if wanted.kind == "UNSPECIFIED" else f"+{TYPE}={wanted.kind}"),
    )


async def apply(cluster: ClusterWatch, plan: ActionPlan, work: Work) -> None:
    """Make the topic on one broker after the other."""
    places, config, attributes = plan.work
    work.expect(len(places))
    for place in places:
        await work.attempt(place.name, topics.put(cluster.calls, place.address, config, attributes))
