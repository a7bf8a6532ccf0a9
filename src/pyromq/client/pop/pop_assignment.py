"""Whom a push consumer pops from, and the loops that do it: one for each broker of a topic, or as the broker assigns.

Started and stopped by `push_consumer.py`, in place of `consume/assignment.py` and `consume/pull_loop.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ... import logs
from ...errors import ProtocolError
from ...model import names
from ...model.group import MessageRequestMode
from ...protocol.bodies.heartbeat import QueryAssignmentRequestBody
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.messages import UnreadableMessage
from ...protocol.requests import RequestCode
from ..connect.background import Bell, Tasks
from ..connect.session import Session
from ..consume.consume_service import AssignedQueue
from ..consume.options import ConsumeOptions
from ..core.retry import announced_pause_s
from ..errors import Error
from ..subscription import Filter
from .kept_pops import KeptPops
from .leases import Leases
from .options import FIRST
from .pop_calls import MOST_POPPED, Handed, PopCalls, PopRequest
from .pop_service import PopService
from .popped import Popped

log = logs.get("pyromq.client")

ERROR_PAUSE_S = 3.0
IDLE_PAUSE_S = 1.0  # after an answer that came too early: the broker holds no more pops
PAUSED_S = 1.0
INCOMPLETE_PAUSE_S = 1.0

Lease = Callable[[Iterable[Handed]], list[Popped]]


async def ask_mode(session: Session, group: str, topics: Iterable[str]) -> MessageRequestMode | None:
    """Return whether brokers want this group to pop; to pull, where they want both. None: none has said it."""
    found = [await assigned_places(session, group, topic) for topic in topics if not names.is_retry(topic)]
    modes = {mode for each in found if each is not None for mode, _ in each}
    if not modes:
        return None
    return MessageRequestMode.POP if modes == {MessageRequestMode.POP} else MessageRequestMode.PULL


async def assigned_places(
    session: Session, group: str, topic: str
) -> list[tuple[MessageRequestMode, MessageQueue]] | None:
    """Return our share of a topic as a broker has it (request 400); None, if none has said it."""
    try:
        route = await session.route(topic)
    except Error:
        return None
    masters = [address for name in route.addresses if (address := route.master(name)) is not None]
    session.rng.shuffle(masters)
    body = QueryAssignmentRequestBody(
        client_id=session.client_id, consumer_group=group, strategy_name="AVG", topic=topic
    )
    for address in masters:
        try:
            found = (await session.ask(address, RequestCode.QUERY_ASSIGNMENT, None, body)).body
        except Error as fault:
            log.debug("no assignment", group=group, topic=topic, address=address, fault=str(fault))
            continue
        if found.message_queue_assignments is not None:
            given = found.message_queue_assignments
            return [(each.mode, each.message_queue) for each in given if each.message_queue is not None]
    return None


@dataclass(eq=False, repr=False, kw_only=True)
class PopAssignment:
    """Event loop only. It has what a push consumer asks of an `Assignment`; queues are nobody's here."""

    session: Session
    group: str
    filters: Mapping[str, Filter]
    options: ConsumeOptions
    calls: PopCalls
    leases: Leases
    lease: Lease
    service: PopService
    tasks: Tasks
    by_server: bool  # brokers say which places are ours
    queues: Mapping[MessageQueue, AssignedQueue] = field(init=False, default_factory=dict)
    is_refused: bool = field(init=False, default=False)
    is_undecided: bool = field(init=False, default=False)
    is_paused: bool = field(init=False, default=False)
    unreadable: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        clock = self.session.clock
        self.changed = Bell(clock)
        self._loops: dict[MessageQueue, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._is_closed = False
        self._given_back = Tasks(lambda fault: log.debug("not given back", fault=repr(fault)))
        self._pops = KeptPops(self.calls, self.session.ids.next, self._abandon)
        self.service.on_free = self._room.set

    async def start(self, *, is_running: bool = False) -> None:
        """Begin to pop, and follow brokers that come and go."""
        complete = await self.rebalance()
        if not self._is_closed:
            self.tasks.start(self._rebalance_loop(complete))

    async def _rebalance_loop(self, complete: bool) -> None:
        while True:
            if complete:
                await self.changed.wait(self.options.rebalance_s)
            else:
                await self.session.clock.sleep(INCOMPLETE_PAUSE_S)
            complete = await self.rebalance()

    async def rebalance(self) -> bool:
        """Begin and end loops. False: something was not known, try again soon."""
        complete, wanted = True, set[MessageQueue]()
        for topic in self.filters:
            try:
                wanted.update(await self._places(topic))
            except Error as fault:
                log.debug("nobody to pop from", group=self.group, topic=topic, fault=str(fault))
                wanted.update(place for place in self._loops if place.topic == topic)
                complete = names.is_retry(topic) and complete
        if self._is_closed:
            return True
        wanted = set() if self.is_refused or self.is_undecided else wanted
        for place in self._loops.keys() - wanted:
            self._loops.pop(place).cancel()
        new = sorted(wanted - self._loops.keys())
        first = await asyncio.gather(*(self._pops.begin(self._request(place)) for place in new), return_exceptions=True)
        for place, found in zip(new, first, strict=True):  # so brokers know where the group begins
            if self._is_closed:
                return True
            if not isinstance(found, BaseException):
                self._accept(place, found)
            self._loops[place] = self.tasks.start(self._run(place))
        return complete

    async def _places(self, topic: str) -> list[MessageQueue]:
        if self.by_server and not names.is_retry(topic):
            found = await assigned_places(self.session, self.group, topic)
            if found is None:
                return [place for place in self._loops if place.topic == topic]
            return [place for _, place in found]
        return await self.calls.places(topic)

    async def _run(self, place: MessageQueue) -> None:
        clock = self.session.clock
        while not self._is_closed:
            pause_s = PAUSED_S if self.is_paused else 0.0
            if pause_s == 0 and not self._has_room(place):
                self._room.clear()
                await self._room.wait()
                continue
            if pause_s == 0:
                began = clock.monotonic()
                try:
                    found = await self._pops.pop(self._request(place))
                except (Error, ProtocolError) as fault:
                    self.session.outages.warn("pop failed", fault, group=self.group, place=str(place))
                    pause_s = announced_pause_s(fault, ERROR_PAUSE_S, self.session.rng)
                else:
                    self._accept(place, found)
                    if not found and clock.monotonic() - began < self.options.hold_s / 2:
                        pause_s = IDLE_PAUSE_S
            if pause_s > 0:
                await clock.sleep(pause_s)

    def _has_room(self, place: MessageQueue) -> bool:
        service, options = self.service, self.options
        is_full = service.held[place] >= options.in_flight or service.bytes >= options.limits.bytes
        return not is_full and not service.is_stuck

    def _request(self, place: MessageQueue) -> PopRequest:
        room = max(1, self.options.in_flight - self.service.held[place])
        return PopRequest(
            place=place,
            wanted=self.filters[place.topic],
            most=min(MOST_POPPED, self.options.pull_messages, room),
            hold_s=self.options.hold_s,
            invisible_s=self.options.invisible_s,
            is_ordered=bool(self.options.orderly),
            from_first=self.options.begin in FIRST,
            is_renewed=True,
        )

    def _accept(self, place: MessageQueue, found: Sequence[Handed]) -> None:
        good = []
        for each in self.lease(found):
            if isinstance(each.message, UnreadableMessage):
                self.unreadable += 1
                log.error("a record cannot be read", group=self.group, id=each.id, fault=each.message.fault)
            if self.filters[place.topic].matches(each.message):
                good.append(each)
            else:
                each.ack()  # brokers compare hashes of tags
        if good:
            self.service.offer(place, good)

    def _abandon(self, handed: list[Handed]) -> None:
        if not self.session.is_closed:
            self._given_back.start(self.leases.give_back(self.lease(handed)))

    def close(self) -> None:
        """End all loops. Handlers may go on; `release` comes after them."""
        self._is_closed = True
        for loop in self._loops.values():
            loop.cancel()

    async def release(self) -> None:
        """Give back what no handler has had, wait for the acknowledgements, and give back the rest."""
        await self.leases.give_back(self.service.waiting())
        await self.leases.close()

    async def commit(self) -> None:
        """Wait for the acknowledgements that are under way: there are no offsets to commit."""
        try:
            await self.leases.flush()
        except Error as fault:
            log.debug("messages not acknowledged", group=self.group, fault=str(fault))

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Do nothing: the broker has the offsets, and drops what it handed out before."""
