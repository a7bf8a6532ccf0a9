"""A topic that a send created on one broker is created on the cluster's other brokers too.

Without it the topic would stay pinned to the broker that happened to be hit first: clients learn its route from the
name server, see one broker, and never send to the others. Brokers that have the topic already are left alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ... import logs
from ...errors import PyroError
from ...model.codes import ResponseCode
from ...model.topic import MASTER_ID
from ...protocol.bodies.body import decode_body
from ...protocol.bodies.route import ClusterInfo
from ...protocol.bodies.topics import TopicConfig
from ...protocol.command import Command
from ...protocol.headers.admin import CreateTopic
from ...protocol.headers.header import TopicName
from ...protocol.requests import RequestCode
from ...transport.client import RemotingClient
from ..registration import Identity

log = logs.get("pyromq.broker")

TIMEOUT_S = 3.0
AT_ONCE = 16  # topics that are being propagated; more wait


@dataclass(slots=True, eq=False, repr=False)
class TopicPropagation:
    """Event loop only. The send that created a topic does not wait for it."""

    client: RemotingClient
    identity: Identity
    name_servers: tuple[str, ...]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def begin(self, topic: TopicConfig) -> None:
        """Create a topic on the other brokers, in the background."""
        if not self.name_servers:
            return
        task = asyncio.get_running_loop().create_task(self._propagate(topic))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _propagate(self, topic: TopicConfig) -> None:
        """Ask who else is there, and create it where it is missing. A flood of topics takes turns."""
        async with self._turns:
            others = await self._others()
            done = await asyncio.gather(*(self._create(address, topic) for address in others))
        if any(done):
            log.info("auto-created topic spread", topic=topic.topic_name, brokers=sum(done))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _others(self) -> list[str]:
        """Return the masters of the other brokers of this cluster, as the first name server that answers knows them."""
        for name_server in self.name_servers:
            try:
                ask = Command(code=RequestCode.GET_BROKER_CLUSTER_INFO)
                answer = await self.client.call(name_server, ask, TIMEOUT_S)
                info = decode_body(ClusterInfo, answer.body)
            except PyroError as fault:
                log.warning("cluster not known, a topic is not spread", name_server=name_server, why=str(fault))
                continue
            names = info.cluster_addr_table.get(self.identity.cluster, [])
            brokers = [info.broker_addr_table[name] for name in names if name in info.broker_addr_table]
            masters = [one.broker_addrs[MASTER_ID] for one in brokers if MASTER_ID in one.broker_addrs]
            return [address for address in masters if address != self.identity.address]
        return []

    async def _create(self, address: str, topic: TopicConfig) -> bool:
        ask = Command(code=RequestCode.GET_TOPIC_CONFIG, fields=TopicName(topic=topic.topic_name).to_fields())
        try:
            known = await self.client.call(address, ask, TIMEOUT_S)
            if known.code != ResponseCode.TOPIC_NOT_EXIST:
                return False  # it has one, perhaps with other queues: that is its administrator's business
            create = Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, fields=CreateTopic.of(topic).to_fields())
            made = await self.client.call(address, create, TIMEOUT_S)
        except PyroError as fault:  # also of an address that is none: the other brokers get the topic all the same
            log.warning("a topic could not be spread", topic=topic.topic_name, broker=address, why=str(fault))
            return False
        return made.code == ResponseCode.SUCCESS
