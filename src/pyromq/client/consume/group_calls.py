"""What a member of a group asks brokers, and what the group keeps: members, filter, locks, offsets.

Offsets are kept by the broker for a group that shares queues, in a file for broadcast: two implementations behind one
shape (`OffsetStore`). Push and pull consumers call this, `assignment.py`, and `start_offsets.py`, which has the rule
for a queue without an offset; Spark reads and commits offsets by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from ... import logs
from ...errors import PyroError
from ...files import replace_file
from ...model.codes import ResponseCode
from ...protocol.bodies.body import decode_body, encode_body
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.heartbeat import CheckClientRequestBody, LockBatchRequestBody
from ...protocol.bodies.keyed import ByQueue, MessageQueue
from ...protocol.bodies.offsets import ResetOffsetBody
from ...protocol.headers import offsets as headers
from ...protocol.headers.header import ConsumerGroupName, GroupName, TopicQueue
from ...protocol.json import FILE_LIMITS, Dialect
from ...protocol.requests import RequestCode
from ...protocol.row import H, Row
from ..connect.session import Session
from ..core.allocation import Strategy
from ..core.routing import Route
from ..errors import Error
from ..subscription import Filter

log = logs.get("pyromq.client")

LOCK_KEPT_S = 60.0  # by the broker, for a client that does not renew it
LOCK_VALID_S = 30.0  # we stop trusting it earlier
LOCK_RENEW_S = 20.0
REREAD_S = 1.0  # for a name server's answer, while offsets wait
# A broker's answers where there is nothing to read: it has no such group yet, or is one from before 5.0.
NO_SETTINGS = (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


async def check_filter(session: Session, group: str, topic: str, wanted: Filter) -> None:
    """Ask the brokers whether they can evaluate the filter. Refused has the reason why one cannot."""
    known = session.known_route(topic)
    if known is None or not wanted.sql:
        return  # nobody to ask yet, or nothing to ask
    body = CheckClientRequestBody(client_id=session.client_id, group=group, subscription_data=wanted.describe(topic, 0))
    for name in known.addresses:
        if (address := known.master(name)) is not None:
            await session.ask(address, RequestCode.CHECK_CLIENT_CONFIG, None, body)


async def group_settings(session: Session, address: str, group: str) -> SubscriptionGroupConfig:
    """Return how operators have set the group at this broker. Refused: it has no such group, or does not say it."""
    return (await session.ask(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupName(group=group))).body


async def allocated_queues(
    session: Session, group: str, topic: str, strategy: Strategy, is_broadcast: bool
) -> set[MessageQueue] | None:
    """Return our queues of a topic; None if no broker could be asked, so that things stay as they are."""
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
            wanted = ConsumerGroupName(consumer_group=group)
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

    async def lock(self, queues: Iterable[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Return the queues that were granted, and those whose lock another client has.

        The time of a lock counts from before the call, never to end too late.
        """
        granted: set[MessageQueue] = set()
        denied: set[MessageQueue] = set()
        for address, wanted in self._by_master(queues).items():
            try:
                answer = await self._session.ask(address, RequestCode.LOCK_BATCH_MQ, None, self._body(wanted))
                granted.update(answer.body.lock_ok_mq_set)
                denied.update(set(wanted) - granted)
            except Error as fault:
                self._session.outages.warn("queues not locked", fault, group=self._group, address=address)
        return granted, denied

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
            if (address := self._session.known_master(queue)) is not None:
                found.setdefault(address, []).append(queue)
        return found


class BrokerOffsets:
    """Offsets that brokers keep. Event loop only."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the group's offset; None if there is none for this queue."""
        # Brokers would answer 0 for a young topic whatever the group asked for; here the group's own rule decides.
        header = headers.QueryConsumerOffset(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        return await _offset(self._session, queue, RequestCode.QUERY_CONSUMER_OFFSET, header)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Save offsets and return those that their masters have; the rest has to be saved again.

        While a master is away a slave is told: in a classic pair it keeps them until its master is back. In an elected
        set another master leads soon, which does not hear of what a follower was told."""
        saved = {}
        for queue, offset in offsets.items():
            header = headers.UpdateConsumerOffset(
                consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
            try:
                route = await self._route_with_master(queue)
                address = self._session.reader(route, queue)
                await self._session.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
                if address == route.master(queue.broker_name):
                    saved[queue] = offset
            except Error as fault:
                self._session.outages.warn("offset not committed", fault, group=self._group, queue=str(queue))
                await self._session.routes.reread(queue.topic, REREAD_S)  # another one may be the master by now
        return saved

    async def _route_with_master(self, queue: MessageQueue) -> Route:
        """Return a route that names the queue's master, if a name server knows it."""
        route = await self._session.route(queue.topic)
        if route.master(queue.broker_name) is None:
            await self._session.routes.reread(queue.topic, REREAD_S)
            route = await self._session.route(queue.topic)
        return route


class LocalOffsets:
    """A file per group, in the layout of Java's clients. Read once, replaced as a whole, by one writer at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = asyncio.Lock()

    async def read(self, queue: MessageQueue) -> int | None:
        return self._table.get(queue)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        self._table.update(offsets)
        try:
            async with self._writing:
                body = ResetOffsetBody(offset_table=self._table)
                content = encode_body(body, Dialect.JAVA)  # Java's client may go on with it
                await asyncio.to_thread(replace_file, self._path, content)
        except OSError as fault:
            log.warning("offsets not written", path=str(self._path), fault=str(fault))
            return {}
        return dict(offsets)

    @cached_property
    def _table(self) -> ByQueue[int]:
        """Read the file, or the one before it if that is damaged or gone, as Java's clients do."""
        for path in (self._path, self._path.with_name(self._path.name + ".bak")):
            try:
                return decode_body(ResetOffsetBody, path.read_bytes(), FILE_LIMITS).offset_table
            except FileNotFoundError:
                continue
            except (OSError, PyroError) as fault:
                log.error("offsets cannot be read, what was before them counts", path=str(path), fault=str(fault))
        return ByQueue()


OffsetStore = BrokerOffsets | LocalOffsets


# --- what brokers know of a queue ------------------------------------------------------------------------------------


async def min_offset(session: Session, queue: MessageQueue) -> int:
    header = TopicQueue(topic=queue.topic, queue_id=queue.queue_id)
    return await _offset(session, queue, RequestCode.GET_MIN_OFFSET, header) or 0


async def max_offset(session: Session, queue: MessageQueue) -> int:
    """Return the offset behind the last message."""
    header = headers.GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
    return await _offset(session, queue, RequestCode.GET_MAX_OFFSET, header) or 0


async def offset_at(session: Session, queue: MessageQueue, time_ms: int) -> int:
    """Return the offset of the first message stored at that time or later."""
    header = headers.SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
    return await _offset(session, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header) or 0


async def _offset(
    session: Session, queue: MessageQueue, row: Row[H, None, headers.OffsetAnswer, None], header: H
) -> int | None:
    expected = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    answer = await session.ask(session.reader(await session.route(queue.topic), queue), row, header, expected=expected)
    return None if answer.code == ResponseCode.QUERY_NOT_FOUND else answer.header.offset
