"""Which queues are ours now: the members of the group as a broker knows them, shared out by the strategy."""

from __future__ import annotations

from ... import logs
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.clients import GetConsumerListByGroup
from ...protocol.requests import RequestCode
from ..connect.session import Session
from ..core.allocation import Strategy
from ..core.routing import Route
from ..errors import Error

log = logs.get("pyromq.client")


async def share_of(
    session: Session, group: str, topic: str, strategy: Strategy, is_broadcast: bool
) -> set[MessageQueue] | None:
    """Return our queues of a topic. None: nobody could be asked, so things stay as they are."""
    try:
        route = await session.route(topic)
    except Error as fault:
        log.debug("queues not shared out: no route", group=group, topic=topic, fault=str(fault))
        return None
    if is_broadcast:
        return set(route.readable)
    members = await _members(session, group, route)
    if not members:
        return None
    return set(strategy(session.client_id, sorted(route.readable), sorted(members)))


async def _members(session: Session, group: str, route: Route) -> list[str]:
    """Return the group's members: any broker of the topic knows them all, since each sends heartbeats to all."""
    addresses = [address for replicas in route.addresses.values() for address in replicas.values()]
    session.rng.shuffle(addresses)
    for address in addresses:
        try:
            wanted = GetConsumerListByGroup(consumer_group=group)
            answer = await session.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, wanted)
            return answer.body.consumer_id_list
        except Error as fault:
            log.debug("members not known", group=group, address=address, fault=str(fault))
    return []
