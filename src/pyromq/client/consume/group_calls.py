"""What a member of a group asks brokers: who else is in it, whether they can evaluate its filter, locks on queues.

Push and pull consumers call this, and `assignment.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ... import logs
from ...protocol.bodies.heartbeat import CheckClientRequestBody, LockBatchRequestBody
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.clients import GetConsumerListByGroup
from ...protocol.requests import RequestCode
from ..connect.session import Session
from ..core.allocation import Strategy
from ..core.routing import Route
from ..errors import Error
from ..subscription import Filter

log = logs.get("pyromq.client")

LOCK_VALID_S = 30.0  # the broker keeps a lock for 60 s; we stop trusting it earlier
LOCK_RENEW_S = 20.0


async def check_at_brokers(session: Session, group: str, topic: str, wanted: Filter) -> None:
    """Ask the brokers whether they can evaluate the filter. Refused has the reason why one cannot."""
    known = session.known_route(topic)
    if known is None or not wanted.sql:
        return  # nobody to ask yet, or nothing to ask
    body = CheckClientRequestBody(client_id=session.client_id, group=group, subscription_data=wanted.describe(topic, 0))
    for name in known.addresses:
        if (address := known.master(name)) is not None:
            await session.ask(address, RequestCode.CHECK_CLIENT_CONFIG, None, body)


async def allocated_queues(
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


class QueueLocks:
    """Locks of an orderly group: only who has a queue's lock may handle its messages. Event loop only."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return those that were granted. Their time counts from before the call, so that it never ends too late."""
        granted: set[MessageQueue] = set()
        for address, wanted in self._by_master(queues).items():
            try:
                answer = await self._session.ask(address, RequestCode.LOCK_BATCH_MQ, None, self._body(wanted))
                granted.update(answer.body.lock_ok_mq_set)
            except Error as fault:
                log.warning("queues not locked", group=self._group, address=address, fault=str(fault))
        return granted

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        for address, ours in self._by_master(queues).items():
            try:
                await self._session.ask(address, RequestCode.UNLOCK_BATCH_MQ, None, self._body(ours))
            except Error as fault:
                log.debug("queues not unlocked", group=self._group, address=address, fault=str(fault))

    def _body(self, queues: list[MessageQueue]) -> LockBatchRequestBody:
        return LockBatchRequestBody(client_id=self._session.client_id, consumer_group=self._group, mq_set=queues)

    def _by_master(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        found: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            route = self._session.known_route(queue.topic)
            address = None if route is None else route.master(queue.broker_name)
            if address is not None:
                found.setdefault(address, []).append(queue)
        return found
