"""Heartbeats of one client: which groups it has, said to every broker it knows, and taken back when a group leaves.

The session runs the loop and says when brokers are new or a connection ended. A broker that was silent is tried every
second; one that refuses is named in the log (`refused_heartbeats.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ... import logs
from ...ambient import Clock
from ...protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from ...protocol.headers.clients import UnregisterClient
from ...protocol.requests import RequestCode
from ..config import ClientConfig
from ..errors import Error, Refused
from .background import Bell
from .refused_heartbeats import RefusedHeartbeats

log = logs.get("pyromq.client")


class GroupMember(Protocol):
    """A consumer as heartbeats describe it."""

    @property
    def group(self) -> str: ...

    def describe(self) -> ConsumerData:
        """Return the member's part of a heartbeat."""
        ...


class Heartbeats:
    """Event loop only."""

    def __init__(
        self,
        client_id: str,
        config: ClientConfig,
        clock: Clock,
        ask: Callable[..., Awaitable[Any]],
        brokers: Callable[[bool], set[str]],
    ) -> None:
        """`brokers` gives the addresses of the brokers that are known: the masters, with True their slaves too."""
        self._client_id = client_id
        self._config = config
        self._clock = clock
        self._ask = ask
        self._brokers = brokers
        self._producers: dict[str, int] = {}
        self._members: dict[str, GroupMember] = {}
        self._unanswered: set[asyncio.Future[None]] = set()
        self._refused = RefusedHeartbeats(clock)
        self.due = Bell(clock)  # rung for new brokers and groups

    def add_producer(self, group: str) -> None:
        self._producers[group] = self._producers.get(group, 0) + 1
        self.due.ring()

    async def remove_producer(self, group: str) -> None:
        self._producers[group] -= 1
        if not self._producers[group]:
            del self._producers[group]
            await self._unregister(UnregisterClient(client_id=self._client_id, producer_group=group))

    def add_member(self, member: GroupMember) -> None:
        if member.group in self._members:
            raise Error(
                f"group {member.group!r} has a consumer in this client already",
                hint="Brokers know one consumer of a group per client: make a second client, or take another group",
            )
        self._members[member.group] = member

    async def remove_member(self, member: GroupMember) -> None:
        if self._members.get(member.group) is member:
            del self._members[member.group]
            await self._unregister(UnregisterClient(client_id=self._client_id, consumer_group=member.group))

    async def send(self) -> bool:
        """Send one to every known broker, to slaves only where we consume. False if a broker did not accept it."""
        if not self._producers and not self._members:
            return True
        beat = HeartbeatData(
            client_id=self._client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
            consumer_data_set=[member.describe() for member in self._members.values()],
        )
        answered = asyncio.get_running_loop().create_future()
        self._unanswered.add(answered)
        try:
            return all(await asyncio.gather(*(self._send_to(address, beat) for address in self._addresses())))
        finally:
            self._unanswered.discard(answered)
            answered.set_result(None)

    async def _send_to(self, address: str, beat: HeartbeatData) -> bool:
        try:
            await self._ask(address, RequestCode.HEART_BEAT, None, beat)
        except Refused as fault:
            self._refused.refused(address, fault)
            return False
        except Error as fault:
            log.debug("heartbeat failed", address=address, fault=str(fault))
            return False
        self._refused.accepted(address)
        return True

    async def run(self) -> None:
        """Send every 30 s; at once for new brokers and groups; every second while a broker is away."""
        while True:
            await self.due.wait(self._config.heartbeat_s)
            while not await self.send():
                await self._clock.sleep(self._config.trouble_pause_s)

    async def _unregister(self, header: UnregisterClient) -> None:
        async def unregister_at(address: str) -> None:
            try:
                await self._ask(address, RequestCode.UNREGISTER_CLIENT, header)
            except Error as fault:
                log.debug("not unregistered", address=address, fault=str(fault))  # it will notice by itself

        if self._unanswered:  # Java's broker serves both at once: an older heartbeat would count, for two minutes
            await asyncio.wait(tuple(self._unanswered))
        await asyncio.gather(*(unregister_at(address) for address in self._addresses()))

    def _addresses(self) -> set[str]:
        return self._brokers(bool(self._members))
