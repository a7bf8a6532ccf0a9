"""What the driver asks a cluster: which queues there are, what they hold, where a group stands. Blocking, over the SDK.

Tasks do not come here (`pulling.py`, `sending.py`): they talk to one broker each, over a connection of their own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from ... import logs
from ...ambient import Clock, SystemClock, system_random
from ...client.config import ClientConfig
from ...client.connect.portal import Portal
from ...client.connect.session import Session
from ...client.consume.group_calls import BrokerOffsets, max_offset, min_offset, offset_at
from ...client.consume.pulling import Puller, PullRequest
from ...client.core.routing import Route
from ...client.errors import Error, NoBroker, TopicNotFound, Unreachable
from ...client.subscription import Filter
from ...model.group import ConsumeType
from ...model.names import retry_topic
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.clients import UnregisterClient
from ...protocol.headers.header import TopicName
from ...protocol.requests import RequestCode
from ..options import NetOptions
from ..read.offsets import Bounds, Offsets, Queue
from .connection import tls_settings

T = TypeVar("T")
log = logs.get("pyromq.spark")


def client_config(options: NetOptions) -> ClientConfig:
    """Return how a client of the SDK reaches the cluster that these options name."""
    return ClientConfig(
        name_servers=options.name_server,
        tls=tls_settings(options),
        access_key=options.access_key,
        secret_key=options.secret_key,
        security_token=options.security_token,
        call_timeout_s=options.call_timeout_ms / 1000,
        name_server_timeout_s=options.connect_timeout_ms / 1000,
    )


def connection_words(config: ClientConfig) -> dict[str, str]:
    """Return the connection options that name the cluster of a client of the SDK: what `client_config` reads."""
    found = {"nameServer": ";".join(config.name_servers), "accessKey": config.access_key}
    found |= {"secretKey": config.secret_key, "securityToken": config.security_token}
    found |= {"callTimeoutMs": str(round(config.call_timeout_s * 1000))}
    found |= {"connectTimeoutMs": str(round(config.name_server_timeout_s * 1000))}
    if (tls := config.tls) is not None:
        files = {"tls.ca": tls.ca, "tls.certificate": tls.certificate, "tls.key": tls.key}
        found |= {"tls": "true", "tls.verify": tls.verify.value, "tls.keyPassword": tls.key_password or ""}
        found |= {name: str(path) for name, path in files.items() if path is not None}
    return {name: value for name, value in found.items() if value}


class Cluster(AbstractContextManager["Cluster"]):
    """Any thread, one at a time. Connections are kept until `close`."""

    def __init__(self, options: NetOptions, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._introduced: set[tuple[str, str]] = set()
        self._portal = Portal()
        self._portal.start()
        self._session = self._portal.call(_opened(client_config(options), self.clock))

    def close(self) -> None:
        self._portal.call(self._session.stop())
        self._portal.stop()

    def __exit__(self, *fault: object) -> None:
        self.close()

    def topics(self, pattern: str) -> list[str]:
        """Return the names that the whole pattern fits; RocketMQ's own only if the pattern begins as they do."""
        fits = re.compile(pattern).fullmatch
        return [topic for topic in self._portal.call(self._session.name_servers.topics()) if fits(topic)]

    def route(self, topic: str) -> Route:
        """Return the route as the name servers know it now. TopicNotFound."""
        return self._portal.call(self._session.name_servers.route(topic))

    def route_to_write(self, topic: str, *, make: bool) -> Route:
        """Return the route. TopicNotFound if there is none and brokers make none.

        `make`: a topic that is not there is made on all brokers, if that may be, so that no key moves."""
        return self._portal.call(self._session.route_to_write(topic, by_key=make))

    def queues(self, topics: Iterable[str]) -> dict[Queue, str]:
        """Return the readable queues with the address of a broker that has them. TopicNotFound."""
        found: dict[Queue, str] = {}
        for topic in topics:
            route = self.route(topic)
            for each in route.readable:
                if (address := route.reader(each.broker_name)) is not None:
                    found[Queue(topic, each.broker_name, each.queue_id)] = address
        return found

    def bounds(self, queues: Iterable[Queue]) -> dict[Queue, Bounds]:
        """Return the bounds of queues; queues of brokers that are away are left out."""
        wanted = list(queues)
        low = self._each(wanted, lambda queue: min_offset(self._session, queue))
        high = self._each(wanted, lambda queue: max_offset(self._session, queue))
        return {queue: Bounds(low[queue], max(low[queue], high[queue])) for queue in low if queue in high}

    def at_times(self, times_ms: Mapping[Queue, int]) -> Offsets:
        """Return the offset of the first message stored at that time or later; the queue's end if there is none."""
        times = {_message_queue(queue): time_ms for queue, time_ms in times_ms.items()}
        return self._each(times_ms, lambda queue: offset_at(self._session, queue, times[queue]))

    def last_stored(self, queues: Mapping[Queue, str]) -> dict[str, int]:
        """Return by broker when the last message of these topics was stored, in the broker's own time.

        One that does not say (it is away, or the key may not ask) is left out.
        """
        places = {(queue.broker, queue.topic): address for queue, address in queues.items()}

        async def ask_all() -> list[int | BaseException]:
            asked = (self._last_stored(topic, address) for (_, topic), address in places.items())
            return await asyncio.gather(*asked, return_exceptions=True)

        found: dict[str, int] = {}
        silent: set[str] = set()
        for (broker, _), answer in zip(places, self._portal.call(ask_all()), strict=True):
            if isinstance(answer, Error):
                silent.add(broker)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[broker] = max(found.get(broker, 0), answer)
        return {broker: time_ms for broker, time_ms in found.items() if time_ms > 0 and broker not in silent}

    async def _last_stored(self, topic: str, address: str) -> int:
        stats = await self._session.ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicName(topic=topic))
        return max((at.last_update_timestamp for at in stats.body.offset_table.values()), default=0)

    def committed(self, group: str, queues: Iterable[Queue]) -> Offsets:
        """Return the group's offsets; queues where it has not been are left out."""
        found = self._each(queues, BrokerOffsets(self._session, group).read)
        return {queue: offset for queue, offset in found.items() if offset is not None}

    def commit(self, group: str, offsets: Mapping[Queue, int]) -> Offsets:
        """Commit, and return the offsets that were kept: a broker that is away gets the next ones."""
        given = {_message_queue(queue): offset for queue, offset in offsets.items()}
        self._introduce(group, offsets)
        saved = self._portal.call(BrokerOffsets(self._session, group).save(given))
        return {Queue(each.topic, each.broker_name, each.queue_id): offset for each, offset in saved.items()}

    def _introduce(self, group: str, queues: Iterable[Queue]) -> None:
        """Make the group known: brokers keep offsets only of groups that have pulled.

        `mqadmin consumerProgress` looks for a group by its retry topic, which its first member's heartbeat makes.
        """
        unknown = {(group, queue.broker): queue for queue in queues if (group, queue.broker) not in self._introduced}
        if not unknown:
            return
        puller = Puller(self._session, group)
        asked = self._each(unknown.values(), lambda queue: puller.pull(PullRequest(queue, 0, Filter(), 1, 0)))
        listed = self._brokers_of(retry_topic(group))
        unlisted = [queue for queue in asked if queue.broker not in listed]
        self._each(unlisted, lambda queue: self._join_and_leave(group, queue))
        self._introduced |= {(group, queue.broker) for queue in asked}

    def _brokers_of(self, topic: str) -> set[str]:
        try:
            return set(self.route(topic).addresses)
        except TopicNotFound:
            return set()

    async def _join_and_leave(self, group: str, queue: MessageQueue) -> None:
        """Register a member of the group and take it back at once: it gets no queues."""
        client_id = self._session.client_id
        member = ConsumerData(group_name=group, consume_type=ConsumeType.ACTIVELY)
        beat = HeartbeatData(client_id=client_id, consumer_data_set=[member])
        leaves = UnregisterClient(client_id=client_id, consumer_group=group)
        try:
            address = await self._session.master(queue)
            await self._session.call(address, RequestCode.HEART_BEAT, body=encode_body(beat))
            await self._session.call(address, RequestCode.UNREGISTER_CLIENT, leaves)
        except Error as fault:  # offsets are kept all the same; only lists do not show the group
            log.warning("the group may not show in mqadmin", group=group, fault=str(fault))

    def _each(self, queues: Iterable[Queue], ask: Callable[[MessageQueue], Awaitable[T]]) -> dict[Queue, T]:
        """Ask the brokers of all queues at once. One that cannot be reached is left out, anything else is an error."""
        wanted = list(queues)

        async def ask_all() -> list[T | BaseException]:
            answers = await asyncio.gather(*(ask(_message_queue(queue)) for queue in wanted), return_exceptions=True)
            if any(isinstance(answer, NoBroker) for answer in answers):
                self._session.refresh_routes()  # a broker that the session has not met yet: there at the next question
            return answers

        found: dict[Queue, T] = {}
        for queue, answer in zip(wanted, self._portal.call(ask_all()), strict=True):
            if isinstance(answer, (Unreachable, NoBroker)):
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[queue] = answer
        return found


async def _opened(config: ClientConfig, clock: Clock) -> Session:
    session = Session(config, clock=clock, rng=system_random())
    session.start()
    return session


def _message_queue(queue: Queue) -> MessageQueue:
    return MessageQueue(broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic)
