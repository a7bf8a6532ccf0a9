"""Topics made and changed: how they are then, and where they are put."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ...model.names import is_system_topic
from ...model.topic import PERMISSIONS
from ...protocol.bodies.topics import TopicConfig
from .. import settings, topics
from .topic_queues import broker_name

if TYPE_CHECKING:
    from ..calls import Calls
    from ..cluster import BrokerPlace
    from .topic_queues import Pairs

DEFAULT_QUEUES = 8  # on each broker
TYPE = "message.type"  # the attribute that says which messages a topic takes
TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE")
MOST_QUEUES = 1 << 16  # of a topic on one broker: more are refused
GUARD = "validateSystemTopicWhenUpdateTopic"


def new_topic(name: str, queues: int = DEFAULT_QUEUES) -> TopicConfig:
    return TopicConfig(topic_name=name, write_queue_nums=queues, read_queue_nums=queues)


def changed_topic(
    config: TopicConfig,
    *,
    queues: int | None = None,
    read_queues: int | None = None,
    perm: str | None = None,
    order: bool | None = None,
) -> TopicConfig:
    """Return the topic with what is given changed. `queues` are to write and to read, unless `read_queues` differ."""
    new: dict[str, Any] = {}
    if queues:
        new |= {"write_queue_nums": queues, "read_queue_nums": queues}
    if read_queues:
        new["read_queue_nums"] = read_queues
    if perm:
        new["perm"] = (config.perm & ~6) | PERMISSIONS[perm]
    if order is not None:
        new["order"] = order
    return msgspec.structs.replace(config, **new)


async def present(calls: Calls, places: Iterable[BrokerPlace], name: str) -> Pairs:
    """Return the brokers that have the topic, with how it is there."""
    found = [(place, await topics.config(calls, place.address, name)) for place in places]
    return [(place, config) for place, config in found if config is not None]


async def is_servers_own(calls: Calls, place: BrokerPlace, name: str) -> bool:
    """Return whether the topic is the system's own, or is called like the broker or its cluster, and the broker lets
    nobody change such topics."""
    is_own = is_system_topic(name) or name in (place.name, place.cluster)
    return is_own and (await settings.of_broker(calls, place.address)).get(GUARD) != "false"


async def put_order(calls: Calls, pairs: Pairs) -> None:
    """Let name servers say among how many queues of each broker clients divide the keys of an order topic."""
    queues = {await broker_name(calls, place): config.write_queue_nums * config.order for place, config in pairs}
    await topics.put_order(calls, pairs[0][1].topic_name, queues)
