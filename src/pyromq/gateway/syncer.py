"""How gateways, and Java's proxies beside them, tell each other their consumers: messages of one topic, read by all.

A heartbeat of a consumer is one message, as in Java (HeartbeatSyncer). What is not sent in time is replaced by what the
consumer says next; what cannot be sent is left, since it says it again within seconds. A farewell is said once: it is
tried until the others would forget the consumer anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from .. import logs
from ..ambient import Clock
from ..client.connect.session import Session
from ..client.consume.group_calls import max_offset
from ..client.consume.pulling import Puller, PullRequest
from ..client.errors import TopicNotFound
from ..client.subscription import everything
from ..errors import Malformed, PyroError
from ..model.names import AUTO_CREATE_TOPIC
from ..model.topic import MASTER_ID, Perm
from ..protocol.bodies.body import decode_body, encode_body
from ..protocol.bodies.keyed import MessageQueue
from ..protocol.bodies.proxies import UNREGISTER, HeartbeatSyncerData
from ..protocol.bodies.topics import TopicConfig
from ..protocol.headers.admin import CreateTopic
from ..protocol.headers.send import SendMessageV2
from ..protocol.requests import RequestCode
from .members import GatewayMembers

log = logs.get("pyromq.gateway")

_MOST_WAITING = 100_000  # announcements; more are left out
_AT_ONCE = 32  # sends under way
_REFRESH_S = 20.0  # for brokers that came
_SILENCE_CHECK_S = 10.0


class HeartbeatSyncer:
    """Event loop only. `proxy_id` is ours among the gateways; set once ports are known."""

    def __init__(
        self, session: Session, clock: Clock, members: GatewayMembers, topic: str, cluster: str, silent_s: float
    ) -> None:
        self._session, self._clock, self._members = session, clock, members
        self._topic, self._cluster, self._silent_s = topic, cluster, silent_s
        self._waiting: dict[tuple[str, str], HeartbeatSyncerData] = {}  # by group and client: the newest counts
        self._due = asyncio.Event()
        self._turn = 0
        self._is_told = False
        self._readers: dict[MessageQueue, asyncio.Task[None]] = {}
        self._begun: set[MessageQueue] = set()  # those whose end was found
        self._puller = Puller(session, f"CID_{topic}")
        self.proxy_id = ""

    @property
    def is_hearing(self) -> bool:
        """Return whether every queue of the topic is being read: what is said from now on is heard."""
        return bool(self._readers) and self._begun >= self._readers.keys()

    def announce(self, announced: HeartbeatSyncerData) -> None:
        """Let the other gateways know soon."""
        place = announced.group, announced.client_id
        if place in self._waiting or len(self._waiting) < _MOST_WAITING:
            self._waiting[place] = announced
            self._due.set()

    # --- loops ----------------------------------------------------------------------------------------------------

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {"announced clients": self._send_loop, "clients elsewhere": self._read_loop, "silence": self._silence}

    async def _silence(self) -> None:
        while True:
            await self._clock.sleep(_SILENCE_CHECK_S)
            self._members.expire(self._clock.monotonic() - self._silent_s)

    async def _send_loop(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            while self._waiting:
                batch = [self._waiting.pop(place) for place in list(self._waiting)[:_AT_ONCE]]
                sent = await asyncio.gather(*map(self._send, batch))
                unsent = [one for one, is_sent in zip(batch, sent, strict=True) if not is_sent]
                if unsent:
                    self._keep_farewells(unsent)
                    await self._clock.sleep(self._session.config.trouble_pause_s)

    def _keep_farewells(self, unsent: Iterable[HeartbeatSyncerData]) -> None:
        """Let farewells wait on, unless the consumer has said something since."""
        young = self._clock.now_ms() - self._silent_s * 1000
        for one in unsent:
            if one.heartbeat_type == UNREGISTER and one.last_update_timestamp > young:
                self._waiting.setdefault((one.group, one.client_id), one)

    async def flush(self) -> None:
        """Send what waits, as far as that goes within a moment: for a stop."""
        with suppress(TimeoutError):
            async with self._clock.timeout(2.0):
                while self._waiting:
                    await self._send(self._waiting.pop(next(iter(self._waiting))))

    async def _send(self, announced: HeartbeatSyncerData) -> bool:
        """Return whether it is sent."""
        try:
            route = await self._session.route(self._topic)
            if not route.writable:
                raise TopicNotFound(f"{self._topic} has no queue that can be written")
            self._turn += 1
            queue = route.writable[self._turn % len(route.writable)]
            address = self._session.reader(route, queue)
            header = SendMessageV2(
                producer_group=f"PID_{self._topic}",
                topic=self._topic,
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=0,
                queue_id=queue.queue_id,
                sys_flag=0,
                born_timestamp=self._clock.now_ms(),
                flag=0,
                properties="",
                reconsume_times=0,
                batch=False,
                bname=queue.broker_name,
            )
            body = encode_body(announced)
            await self._session.call(address, RequestCode.SEND_MESSAGE_V2, header.to_fields(), body)
        except PyroError as fault:
            log.debug("a client is not announced now", client=announced.client_id, why=str(fault))
            return False
        return True

    async def _read_loop(self) -> None:
        """Have the topic, and a reader for each of its queues, until cancelled."""
        try:
            while True:
                try:
                    await self._have_topic()
                    route = await self._session.read_route(self._topic)
                    self._read(set(route.readable))
                    self._is_told = False
                except PyroError as fault:
                    self._say(fault)
                await self._clock.sleep(_REFRESH_S if self._readers else self._session.config.trouble_pause_s)
        finally:
            for task in self._readers.values():
                task.cancel()
            if self._readers:
                await asyncio.wait(self._readers.values())
            self._readers.clear()

    def _say(self, fault: PyroError) -> None:
        if not self._is_told:
            log.warning("other gateways are not heard of now", topic=self._topic, why=str(fault))
        self._is_told = True

    async def _have_topic(self) -> None:
        """Make the topic on the cluster's brokers that lack it, with one queue, as Java's proxy does."""
        have: set[str] = set()
        with suppress(TopicNotFound):
            route = await self._session.read_route(self._topic)
            have = {queue.broker_name for queue in route.readable}
        info = (await self._session.name_servers.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body
        for name in sorted({*info.cluster_addr_table.get(self._cluster, ())} - have):
            address = info.broker_addr_table[name].broker_addrs.get(MASTER_ID)
            if address is not None:
                wanted = TopicConfig(
                    topic_name=self._topic, read_queue_nums=1, write_queue_nums=1, perm=Perm.READ | Perm.WRITE
                )
                await self._session.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopic.of(wanted))

    def _read(self, queues: set[MessageQueue]) -> None:
        for queue, task in list(self._readers.items()):
            if task.done():  # of a fault in us, or it was cancelled
                fault = None if task.cancelled() else task.exception()
                log.error("a queue of gateways is read anew", queue=str(queue), why=repr(fault))
                del self._readers[queue]
        for gone in self._readers.keys() - queues:
            self._readers.pop(gone).cancel()
            self._begun.discard(gone)
        loop = asyncio.get_running_loop()
        for queue in queues - self._readers.keys():
            self._readers[queue] = loop.create_task(self._read_queue(queue))

    async def _read_queue(self, queue: MessageQueue) -> None:
        """Read a queue from its end on, until cancelled."""
        offset: int | None = None
        while True:
            try:
                if offset is None:
                    offset = await max_offset(self._session, queue)
                    self._begun.add(queue)
                result = await self._puller.pull(PullRequest(queue, offset, everything()))
            except PyroError as fault:
                log.debug("a queue of gateways is not read now", queue=str(queue), why=str(fault))
                await self._clock.sleep(self._session.config.trouble_pause_s)
                continue
            for message in result.messages:
                self._take(bytes(message.body))
            offset = result.next_offset

    def _take(self, body: bytes) -> None:
        try:
            told = decode_body(HeartbeatSyncerData, body)
            if told.local_proxy_id != self.proxy_id:
                self._members.take(told, self._clock.monotonic())
        except Malformed as fault:
            log.warning("what another gateway says cannot be read", why=str(fault))
