"""Tells the name servers that this broker is there and what it holds: one loop per name server, none waits for another.

A change is announced at once; changes that come while a registration is under way share the next one. A table that is
larger than a frame may be goes in parts. Between changes a small question (are my topics still as you know them?)
keeps the broker alive there, and its answer makes up for a name server that was restarted. A period after a change it
is told in full once more: who deletes a topic tells the brokers first and the name servers then, so a send in between
makes the topic anew, and the second deletion takes its route although the broker has announced it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from .. import logs
from ..ambient import Clock, Random
from ..errors import CallFailed, CallRefused, PyroError, RequestTooLarge
from ..model.codes import ResponseCode
from ..model.topic import MASTER_ID, Perm
from ..protocol.bodies.body import DataVersion, decode_body, encode_body
from ..protocol.bodies.registration import RegisterBrokerBody, body_crc, encode_registration
from ..protocol.bodies.route import KVTable
from ..protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from ..protocol.command import Command
from ..protocol.frame import FrameLimits
from ..protocol.headers.header import Header
from ..protocol.headers.namesrv import QueryDataVersionAnswer, RegisterBroker, RegisterBrokerAnswer, RegisteredBroker
from ..protocol.requests import RequestCode
from ..transport.client import RemotingClient
from ..transport.peer import Peer

log = logs.get("pyromq.broker")

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 10.0
FAREWELL_S = 3.0
REGISTERED = "registered"  # the state of a name server that knows this broker
REPEAT_S = 60.0  # what stays wrong is said again and again
LEAST_TOPIC_BYTES = 130  # of a topic in JSON
HEADER_BYTES = 16 << 10  # room for all that a frame has besides the topics
MANY_TOPICS = 1_000
PAUSE_PER_TOPIC_S = 50e-6  # between two registrations of many topics: to encode one takes a microsecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who registers."""

    cluster: str
    broker_name: str
    address: str
    ha_address: str = ""
    broker_id: int = MASTER_ID

    def header(self, kind: type[Header]) -> Header:
        return msgspec.convert(
            {
                "brokerName": self.broker_name,
                "brokerAddr": self.address,
                "clusterName": self.cluster,
                "brokerId": self.broker_id,
            },
            kind,
        )


@dataclass(frozen=True, slots=True)
class RegistrationFacts:
    """What the name servers are to know, as of now."""

    version: DataVersion
    topics: Mapping[str, TopicConfig]
    permission: int = Perm.READ_WRITE
    compressed: bool = False
    in_parts: bool = False  # also where one body would do
    part_topics: int = 800

    def bodies(self, most_bytes: int) -> Iterator[bytes]:
        """Yield the registration in one body, or in several if it is larger than `most_bytes` or `in_parts` says so.

        A name server takes topics of a part over if its version is another than the one before. So each part has one of
        its own, which no state of the table ever had, and the last one the table's.
        """
        if not self.in_parts and (self.compressed or len(self.topics) * LEAST_TOPIC_BYTES <= most_bytes):
            whole = self._body(self.version, self.topics)
            if len(whole) <= most_bytes:
                yield whole
                return
        names = list(self.topics)
        count = max(1, -(-len(names) // self.part_topics))
        for place in range(count):  # of equal length: a single topic would not be taken from a broker that is new
            part = names[len(names) * place // count : len(names) * (place + 1) // count]
            version = msgspec.structs.replace(self.version, timestamp=self.version.timestamp - (count - 1 - place))
            yield self._body(version, {name: self.topics[name] for name in part if name in self.topics})

    def _body(self, version: DataVersion, topics: Mapping[str, TopicConfig]) -> bytes:
        topics = dict(topics)
        if self.permission & Perm.READ_WRITE != Perm.READ_WRITE:
            # What the broker as a whole may not do, none of its topics may.
            topics = {
                name: msgspec.structs.replace(one, perm=one.perm & self.permission) for name, one in topics.items()
            }
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=version, topic_config_table=topics)
        return encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper), self.compressed)


@dataclass(eq=False, repr=False)
class BrokerRegistration:
    """Event loop only. `run` until cancelled, then `unregister`.

    `frame_bytes`: no request may be larger. `order_topics` is told which topics a name server declares as ordered.
    """

    client: RemotingClient
    clock: Clock
    identity: Identity
    name_servers: Sequence[str]
    facts: Callable[[], RegistrationFacts]
    _: KW_ONLY
    rng: Random
    period_s: float
    timeout_s: float
    frame_bytes: int = FrameLimits().frame_bytes
    order_topics: Callable[[Sequence[str]], None] = lambda topics: None
    masters: dict[str, RegisterBrokerAnswer] = field(default_factory=dict)  # by name server, as told last to a slave

    def __post_init__(self) -> None:
        self._limited = logs.Limited(log, self.clock, REPEAT_S)
        self._servers = {address: _NameServer(address) for address in dict.fromkeys(self.name_servers)}

    def announce(self) -> None:
        """Register in full with every name server soon: something changed."""
        for server in self._servers.values():
            server.stale = server.once_more = True
            server.wake.set()

    def lost(self, peer: Peer) -> None:
        """Register anew: a connection to a name server ended, and with it, over there, this broker's registration."""
        # A name server that was named by host has another address here: then each of them is asked.
        known = self._servers.get(peer.address)
        for server in [known] if known is not None else self._servers.values():
            server.wake.set()

    async def registered(self, within_s: float) -> None:
        """Wait until every name server has been told, or was found not to answer; or after so many seconds."""
        with suppress(TimeoutError):
            async with self.clock.timeout(within_s):
                await asyncio.gather(*(server.tried.wait() for server in self._servers.values()))

    def state(self) -> dict[str, str]:
        """Describe the state per name server in words, for the health answer."""
        return {address: server.state for address, server in self._servers.items()}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for server in self._servers.values():
                tasks.create_task(self._keep(server))

    async def _keep(self, server: _NameServer) -> None:
        failures = 0
        while True:
            server.wake.clear()
            try:
                await self._update(server)
                failures = 0
            except Exception as fault:
                failures += 1
                server.stale = True
                self._complain(server, fault)
            server.tried.set()
            if server.rest_s:
                await self.clock.sleep(server.rest_s)
                server.rest_s = 0.0
            await self._pause(server, failures)

    async def _pause(self, server: _NameServer, failures: int) -> None:
        """Wait until the period is over or something is to be told; after a failure the retry keeps its distance.

        A thousand brokers lose a name server at the same moment: chance parts them, when they retry and later.
        """
        if failures:  # a power of many is no float any more
            full_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures - 1, 16))
            await self.clock.sleep(full_s * (0.5 + 0.5 * self.rng.random()))
            return
        with suppress(TimeoutError):
            async with self.clock.timeout(self.period_s * (0.9 + 0.1 * self.rng.random())):
                await server.wake.wait()

    def _complain(self, server: _NameServer, fault: Exception) -> None:
        """Log a fault, at once when it is a new one, and from time to time while it stays."""
        what = "name server does not take the registration"
        if isinstance(fault, RequestTooLarge):
            what = "the registration is too large: clients will not find the topics; see frameMaxLength"
        if not isinstance(fault, PyroError):
            self._limited.exception("a registration failed by a fault of ours", name_server=server.address)
        say = log.warning if server.state != str(fault) else self._limited.warning
        say(what, name_server=server.address, why=str(fault))
        server.state = str(fault)

    async def _update(self, server: _NameServer) -> None:
        facts = self.facts()
        if not server.stale and self.identity.broker_id == MASTER_ID:  # a slave asks for its master by registering
            if not server.once_more and not await self._is_outdated(server, facts.version):
                return
            server.once_more = False
        server.stale = False
        answer = None
        for body in facts.bodies(self.frame_bytes - HEADER_BYTES):
            answer = await self._register(server, body, facts.compressed)
            self._note_master(server, answer)
            if answer.remark:  # taken, but not as we said it: we say it again, for the reason may pass
                server.once_more = True
                self._limited.warning("registered, but not as told", name_server=server.address, why=answer.remark)
        if server.state != REGISTERED:
            log.info("registered", name_server=server.address, topics=len(facts.topics))
        server.state = REGISTERED
        if len(facts.topics) > MANY_TOPICS:
            server.rest_s = len(facts.topics) * PAUSE_PER_TOPIC_S
        if answer is not None and answer.body:
            self.order_topics(list(decode_body(KVTable, answer.body).table))

    def _note_master(self, server: _NameServer, answer: Command) -> None:
        """Note where the master of this broker is. A name server that knows of none now may have, and will again."""
        told = RegisterBrokerAnswer.from_fields(answer.fields)
        if self.identity.broker_id != MASTER_ID and told.master_addr:
            self.masters[server.address] = told

    def master(self) -> RegisterBrokerAnswer | None:
        """Return what the first name server that knows a master of this broker has said of it."""
        return next((self.masters[one] for one in self._servers if one in self.masters), None)

    async def _register(self, server: _NameServer, body: bytes, compressed: bool) -> Command:
        header = RegisterBroker(
            broker_name=self.identity.broker_name,
            broker_addr=self.identity.address,
            cluster_name=self.identity.cluster,
            ha_server_addr=self.identity.ha_address,
            broker_id=self.identity.broker_id,
            enable_acting_master=False,
            compressed=compressed,
            body_crc32=body_crc(body),
        )
        return await self._call(server, RequestCode.REGISTER_BROKER, header, body)

    async def _is_outdated(self, server: _NameServer, version: DataVersion) -> bool:
        header = self.identity.header(RegisteredBroker)
        answer = await self._call(server, RequestCode.QUERY_DATA_VERSION, header, encode_body(version))
        return QueryDataVersionAnswer.from_fields(answer.fields).changed

    async def _call(self, server: _NameServer, code: int, header: Header, body: bytes = b"") -> Command:
        request = Command(code=code, fields=header.to_fields(), body=body)
        answer = await self.client.call(server.address, request, self.timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise CallRefused(answer.code, answer.remark, server.address)
        return answer

    async def unregister(self) -> None:
        """Say to all of them at once that this broker goes; one that does not answer in time is left alone."""
        await asyncio.gather(*(self._unregister(server) for server in self._servers.values()))

    async def _unregister(self, server: _NameServer) -> None:
        request = Command(code=RequestCode.UNREGISTER_BROKER, fields=self.identity.header(RegisteredBroker).to_fields())
        try:
            await self.client.call(server.address, request, min(FAREWELL_S, self.timeout_s))
        except CallFailed as fault:
            log.warning("could not unregister", name_server=server.address, why=str(fault))


@dataclass(slots=True, eq=False, repr=False)
class _NameServer:
    """What is known of one name server."""

    address: str
    stale: bool = True  # it must be told in full
    once_more: bool = False  # and again when the period is over
    rest_s: float = 0.0  # before it may be told anything else
    state: str = "not registered yet"
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    tried: asyncio.Event = field(default_factory=asyncio.Event)
