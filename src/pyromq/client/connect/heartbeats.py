"""Heartbeats of one client: which groups it has, said to every broker it knows, and taken back when a group leaves.

The session runs the loop and says when brokers are new or a connection ended: those are told at once, the others when
their time has come. A broker that is silent is tried after a second, and then more and more seldom, until a call of
another kind finds it again. One that refuses is named in the log, since such a consumer gets nothing and no call of its
own fails. Where it refuses a group, the group's consumer hears of it, and of the end of it: it is asked every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ... import logs
from ...ambient import Clock, Random
from ...model.codes import ResponseCode
from ...protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from ...protocol.bodies.own import RefusedGroups
from ...protocol.headers.clients import UnregisterClient
from ...protocol.requests import RequestCode
from ..config import ClientConfig
from ..core.retry import growing_pause_s, period_s
from ..errors import Error, Refused, SubscriptionConflict, refused
from .answers import Answer
from .background import Bell

log = logs.get("pyromq.client")

LEAST_PAUSE_S = 5.0  # between two lines about one broker: some texts have a number that is another each time
LONGEST_TEXT = 4096
MOST_BROKERS = 1024

CONFLICT_HINT = (
    "Give all members of a group the same topics and filters, and broadcast to all or none; or those that want others "
    "a group of their own; "
    "to change what a group subscribes to, stop its members first"
)


class GroupMember(Protocol):
    """A consumer, as heartbeats see it."""

    def describe(self) -> ConsumerData:
        """Return its part of a heartbeat."""
        ...

    def note_refusal(self, why: SubscriptionConflict | None) -> None:
        """Note that a broker refuses the consumer; None: no broker does any more."""


@dataclass(slots=True, eq=False, repr=False)
class Heartbeats:
    """Event loop only. `brokers` gives the addresses of known brokers: the masters, with True their slaves too."""

    client_id: str
    config: ClientConfig
    clock: Clock
    rng: Random
    ask: Callable[..., Awaitable[Any]]
    brokers: Callable[[bool], set[str]]
    due: Bell = field(init=False)  # rung for new brokers and groups
    _told: set[str] = field(init=False, default_factory=set)  # addresses that accepted what we are now
    _silent: set[str] = field(init=False, default_factory=set)  # those that did not answer the last one
    _producers: dict[str, int] = field(init=False, default_factory=dict)
    _members: dict[str, GroupMember] = field(init=False, default_factory=dict)
    _conflicts: dict[str, dict[str, SubscriptionConflict]] = field(init=False, default_factory=dict)  # address, group
    _refused: set[str] = field(init=False, default_factory=set)  # groups whose consumers know that
    _unanswered: set[asyncio.Future[None]] = field(init=False, default_factory=set)
    _refusals: dict[str, tuple[str, float]] = field(init=False, default_factory=dict)  # last text by address, and when

    def __post_init__(self) -> None:
        self.due = Bell(self.clock)

    @property
    def has_groups(self) -> bool:
        return bool(self._producers or self._members)

    def add_producer(self, group: str) -> None:
        self._producers[group] = self._producers.get(group, 0) + 1
        self._told.clear()
        self.due.ring()

    def forgotten_by(self, address: str) -> None:
        """Tell this broker soon: the connection to it ended, and with it, over there, our groups."""
        self._told.discard(address)
        self.due.ring()

    async def remove_producer(self, group: str) -> None:
        self._producers[group] -= 1
        if not self._producers[group]:
            del self._producers[group]
            await self._unregister(UnregisterClient(client_id=self.client_id, producer_group=group))

    def add_member(self, group: str, member: GroupMember) -> None:
        """Let a consumer be part of heartbeats. Error if its group has another one in this client."""
        if group in self._members:
            hint = "Brokers know one consumer of a group per client: make a second client, or take another group"
            raise Error(f"group {group!r} has a consumer in this client already", hint=hint)
        self._members[group] = member
        self._told.clear()

    async def remove_member(self, group: str) -> None:
        del self._members[group]
        self._refused.discard(group)
        for found in self._conflicts.values():  # the group's next consumer may subscribe as the others do
            found.pop(group, None)
        await self._unregister(UnregisterClient(client_id=self.client_id, consumer_group=group))

    async def send(self) -> None:
        """Send one to every known broker, to slaves only where we consume."""
        self._told.clear()
        await self._beat()

    async def _beat(self) -> None:
        """Send one to each known broker that does not know what we are now."""
        if not self.has_groups:
            return
        addresses = self._addresses()
        self._silent &= addresses
        beat = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
            consumer_data_set=[member.describe() for member in self._members.values()],
        )
        answered = asyncio.get_running_loop().create_future()
        self._unanswered.add(answered)
        try:
            await asyncio.gather(*(self._send_to(address, beat) for address in addresses - self._told))
            self._report_conflicts(addresses)
        finally:
            self._unanswered.discard(answered)
            answered.set_result(None)

    async def _send_to(self, address: str, beat: HeartbeatData) -> None:
        self._told.add(address)  # before its answer: what changes meanwhile takes it out again
        self._silent.discard(address)
        try:
            expected = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
            answer = await self.ask(address, RequestCode.HEART_BEAT, None, beat, expected=expected)
            conflicts = {} if answer.code == ResponseCode.SUCCESS else _conflicts(answer)
        except Error as fault:
            log.debug("heartbeat failed", address=address, fault=str(fault))
            self._told.discard(address)
            if isinstance(fault, Refused):
                self._log_refusal(address, fault)
            else:
                self._silent.add(address)
            return
        self._refusals.pop(address, None)
        self._conflicts[address] = conflicts
        if conflicts:
            self._told.discard(address)

    def _report_conflicts(self, addresses: set[str]) -> None:
        """Tell each consumer once that it is refused, and once that it no longer is. Brokers that went do not count."""
        self._conflicts = {address: found for address, found in self._conflicts.items() if address in addresses}
        found = {group: why for each in self._conflicts.values() for group, why in each.items()}
        for group, member in list(self._members.items()):
            if (group in found) != (group in self._refused):
                self._refused ^= {group}
                member.note_refusal(found.get(group))

    def _log_refusal(self, address: str, fault: Refused) -> None:
        """Log one line for each new text of a broker, not one for each heartbeat."""
        now, text = self.clock.monotonic(), str(fault)[:LONGEST_TEXT]
        last, logged_at = self._refusals.get(address, ("", float("-inf")))
        if text == last or now - logged_at < LEAST_PAUSE_S:
            return
        if len(self._refusals) >= MOST_BROKERS:
            self._refusals.clear()
        self._refusals[address] = text, now
        log.warning(
            "a broker refuses our heartbeat: it does not know our groups, and consumers get nothing from it",
            address=address,
            code=fault.code,
            remark=fault.remark,
        )

    async def run(self) -> None:
        """Tell all every 30 s, those that are new or have forgotten us at once, those that did not accept it again."""
        everybody_at, failures, pause_s = self.clock.monotonic() + self._period_s(), 0, self.config.heartbeat_s
        while True:
            left_s = everybody_at - self.clock.monotonic()
            await self.due.wait(max(0.0, min(pause_s, left_s)))
            if self.clock.monotonic() >= everybody_at:
                self._told.clear()
                everybody_at = self.clock.monotonic() + self._period_s()
            await self._beat()
            missing = (self._addresses() if self.has_groups else set()) - self._told
            failures = failures + 1 if missing else 0
            pause_s = self._retry_pause_s(missing, failures)

    def _period_s(self) -> float:
        return period_s(self.config.heartbeat_s, self.rng)

    def _retry_pause_s(self, missing: set[str], failures: int) -> float:
        if not missing:
            return self.config.heartbeat_s
        if not missing <= self._silent:
            return self.config.trouble_pause_s  # one that refuses: its group's consumer waits to hear of the end
        return growing_pause_s(self.config.trouble_pause_s, self.config.heartbeat_s, failures, self.rng)

    async def _unregister(self, header: UnregisterClient) -> None:
        async def unregister_at(address: str) -> None:
            try:
                await self.ask(address, RequestCode.UNREGISTER_CLIENT, header)
            except Error as fault:
                log.debug("not unregistered", address=address, fault=str(fault))  # it will notice by itself

        if self._unanswered:  # Java's broker serves both at once: an older heartbeat would count, for two minutes
            await asyncio.wait(tuple(self._unanswered))
        await asyncio.gather(*(unregister_at(address) for address in self._addresses()))

    def _addresses(self) -> set[str]:
        return self.brokers(bool(self._members))


def _conflicts(answer: Answer[Any, RefusedGroups]) -> dict[str, SubscriptionConflict]:
    """Return the groups that are refused, each with its reason. Refused, if the whole heartbeat is."""
    if not answer.command.body:
        raise refused(answer.code, answer.remark, answer.address)
    return {
        group: SubscriptionConflict(
            f"{answer.address} refuses this consumer of {text}",
            hint=CONFLICT_HINT,
            address=answer.address,
            code=answer.code,
        )
        for group, text in answer.body.refused_groups.items()
    }
