"""A topic gets other queues or another permission, on every broker that has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ...admin import topics
from ...admin.changes.topic_changes import changed_topic, is_servers_own, present, put_order
from ...admin.changes.topic_queues import QueueLosses, losses_of, moved_keys
from ...admin.cluster import check_name_servers
from ...model.topic import permission
from ..acting.plan import ActionPlan, NotPossible, Sentence, sentence
from ..acting.works import Work
from ..views.missing import NotThere
from .masters import masters
from .topic_creation import Perm, Queues

if TYPE_CHECKING:
    from ...admin.changes.topic_queues import MovedKeys, Pairs
    from ...protocol.bodies.topics import TopicConfig
    from ..watch.watched import ClusterWatch


class TopicChangeWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not given stays. `queues` are to write and to read, unless `read_queues` is given too. `move_keys`: keys
    of an order topic may go to other queues while messages wait."""

    queues: Queues | None = None
    read_queues: Queues | None = None
    perm: Perm | None = None
    move_keys: bool = False


def prefill(cluster: ClusterWatch, name: str) -> dict[str, Any]:
    """Return how the topic is, as the newest snapshot has it."""
    for broker in cluster.snapshot.masters:
        if (one := broker.topics.get(name)) is not None:
            return {"queues": one.write_queues, "read_queues": one.read_queues, "perm": permission(one.perm)}
    return {}


async def plan(cluster: ClusterWatch, name: str, wanted: TopicChangeWanted) -> ActionPlan:
    """Plan the change. NotPossible: nothing would be another, or keys would move."""
    places = await masters(cluster)
    now = await present(cluster.calls, places, name)
    if not now:
        raise NotThere("topic", name, await topics.names(cluster.calls))
    for place, _ in now:
        if await is_servers_own(cluster.calls, place, name):
            raise NotPossible(sentence("{topic} is the system's own and stays as it is", topic=name))
    then = [
        (place, changed_topic(config, queues=wanted.queues, read_queues=wanted.read_queues, perm=wanted.perm))
        for place, config in now
    ]
    rows = [row for (place, old), (_, one) in zip(now, then, strict=True) for row in _rows(place.name, old, one)]
    if not rows:
        raise NotPossible(sentence("Nothing to change: the topic is as you want it"))
    if any(config.order for _, config in then):
        await check_name_servers(cluster.calls)
    losses, moved = await losses_of(cluster.calls, now, then), await moved_keys(cluster.calls, now, then)
    if moved is not None and not wanted.move_keys:
        raise NotPossible(_moving(name, moved))
    return ActionPlan(
        does=sentence("Change the topic {topic}", topic=name),
        rows=rows,
        warnings=[*_warnings(name, losses), *([] if moved is None else [_moving(name, moved)])],
        rests_on=_facts(now) | {"messages that nobody would read": "yes" if losses.hidden else "no"},
        before=_facts(now),
        after=_facts(then),
        work=(then, wanted.move_keys),
    )


async def apply(cluster: ClusterWatch, plan: ActionPlan, work: Work) -> None:
    """Change one broker after the other; then name servers hear of the order topic's queues."""
    then, move_keys = plan.work
    is_order = any(config.order for _, config in then)
    work.expect(len(then) + is_order)
    put = [
        await work.attempt(place.name, topics.put(cluster.calls, place.address, config, force=move_keys))
        for place, config in then
    ]
    if is_order and all(put):
        await work.attempt("name servers", put_order(cluster.calls, then), right="Update")


def _rows(broker: str, old: TopicConfig, new: TopicConfig) -> Iterator[dict[str, Any]]:
    for what, was, then in (
        (sentence("Queues to write"), old.write_queue_nums, new.write_queue_nums),
        (sentence("Queues to read"), old.read_queue_nums, new.read_queue_nums),
        (sentence("Permission"), permission(old.perm), permission(new.perm)),
    ):
        if was != then:
            yield {"broker": broker, "what": what, "now": was, "then": then}


def _facts(pairs: Pairs) -> dict[str, Any]:
    """Return how the topic is on each broker, by names for people."""
    return {
        f"{what} on {place.name}": value
        for place, config in pairs
        for what, value in (
            ("queues to write", config.write_queue_nums),
            ("queues to read", config.read_queue_nums),
            ("permission", permission(config.perm)),
        )
    }


def _warnings(name: str, losses: QueueLosses) -> list[Sentence]:
    found = []
    if losses.hidden:
        found.append(
            sentence(
                "{n} messages of {topic} that are not consumed would stand in queues that nobody reads. To have them "
                "consumed first, take away the queues to write and leave those to read.",
                n=losses.count,
                topic=name,
            )
        )
    found += [
        sentence("{queues} of {topic} on {broker} would be written and read by nobody.", queues=q, topic=name, broker=b)
        for b, q in losses.unread.items()
    ]
    return found


def _moving(name: str, moved: MovedKeys) -> Sentence:
    return sentence(
        "{n} messages of the order topic {topic} are not consumed by every group: with {then} in place of {now} keys "
        "move to other queues, where their next messages may overtake these.",
        n=moved.count,
        topic=name,
        then=moved.then,
        now=moved.now,
    )
