"""Popping: request 200050. Check, look through the queues, note what is handed out, answer; or hold.

What finds nothing waits in `waiting`, which calls back when there is something new, or when its time is over. Messages
leave only after the journal has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from ...ambient import Clock
from ...config import Live
from ...model.codes import ResponseCode
from ...protocol.headers.pop import PopMessage
from ...transport.dispatch import Answer, Reply, Request, RequestOf, failed
from ...transport.peer import Peer
from ..clients.popped_subscriptions import PoppedSubscriptions
from ..clients.pulled_queues import PulledQueues
from ..config import BrokerConfig
from ..intake.intake import Outcome
from ..intake.put_answers import answer
from ..reading.long_poll import Arrivals, SuspendedPull
from . import queue_order
from .checks import PopChecks
from .resumed import Resumed
from .seams import OrderPops, Source
from .tickets import AnyPop, KernelPop, PopTicket
from .waiting import HeldPops, Holding
from .walk import Walk
from .young.journal import PopJournal


@dataclass(slots=True, eq=False, repr=False)
class PopHandler:
    """Event loop only. `order` serves pops in order; `pick` chooses one of n."""

    live: Live[BrokerConfig]
    clock: Clock
    checks: PopChecks
    walk: Walk
    source: Source
    order: OrderPops
    journal: PopJournal
    arrivals: Arrivals
    pick: Callable[[int], int]
    subscriptions: PoppedSubscriptions
    pulled: PulledQueues
    held: HeldPops[AnyPop] = field(init=False)
    given_back: tuple[int, int] | None = None  # by a kernel that could not serve a pop: the next look has it
    _resumed: Resumed = field(default_factory=Resumed)
    _looks: int = 0  # the revive queue follows from it
    _tasks: set[asyncio.Future[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        held = self._retry, self._end, self._dismiss, self._resumed.finish
        self.held = HeldPops(self.clock, self.arrivals, *held)

    def __call__(self, request: RequestOf[PopMessage, None]) -> Answer:
        ticket = self._checked(request)
        self.pulled.note_pop(request.peer, ticket.header.topic, ticket.header.consumer_group)
        pending = self._search(ticket)
        if pending is None:
            return self._answer(ticket)
        return self._answer_later(ticket, pending, self.held.dismissals)

    def _checked(self, request: Request, born_ms: int = 0) -> PopTicket:
        header = request.header
        header.born_time = header.born_time or born_ms
        allowed = self.checks.check(header, request.peer, self.live.config, self.clock.now_ms())
        self.subscriptions.note(header.consumer_group, header.topic, header.exp_type, header.exp)
        self.journal.check_writable()
        return PopTicket(request, header, allowed)

    # --- looking --------------------------------------------------------------------------------------------------

    def _search(self, ticket: PopTicket) -> Awaitable[None] | None:
        ticket.begun = self.clock.monotonic()
        now_ms = self.clock.now_ms()
        if ticket.is_ordered:
            ticket.begin(now_ms, 0, self.pick(queue_order.CHANCES))
        else:
            ticket.begin(now_ms, *self.next_search())
        source = self.order if ticket.is_ordered else self.source
        return self.walk.go(ticket, source)

    def next_search(self) -> tuple[int, int]:
        """Return the revive queue of a look through the queues, and the number of 0 to 99 that decides their order."""
        if self.given_back is not None:
            given_back, self.given_back = self.given_back, None
            return given_back
        revive_queue = self._looks % self.live.config.revive_queue_num
        self._looks += 1
        return revive_queue, self.pick(queue_order.CHANCES)

    async def _answer_later(self, ticket: PopTicket, pending: Awaitable[None], dismissals: int) -> Reply | None:
        """Answer after the look. `dismissals`: as it was when the pop was judged, a turn before this begins."""
        await pending
        if self.held.dismissals != dismissals and not ticket.records:
            return ticket.reply(ResponseCode.POLLING_TIMEOUT)  # it may not wait any more: its client asks again
        return self._answer(ticket)

    def _answer(self, ticket: PopTicket) -> Reply | None:
        """Return the answer; None: it follows when the journal has it, or the pop is held."""
        if ticket.records:
            self._hand_out(ticket)
            return None
        held = self._hold(ticket)
        if held is Holding.WAITS:
            self._wake_for_rest(ticket)
            return None
        return ticket.reply(ResponseCode.POLLING_FULL if held is Holding.FULL else ResponseCode.POLLING_TIMEOUT)

    def _hand_out(self, ticket: PopTicket) -> None:
        self.journal.after(partial(self._noted, ticket), waits=self.live.config.pop_waits_for_flush)
        self._wake_for_rest(ticket)

    def _noted(self, ticket: PopTicket, _: Outcome) -> None:
        """Answer whatever became of the record: what is handed out stays so in memory, and is written down later."""
        answer(ticket.request, ticket.reply())

    # --- holding --------------------------------------------------------------------------------------------------

    def _hold(self, ticket: PopTicket) -> Holding:
        header = ticket.header
        if header.poll_time <= 0 or ticket.request.command.is_oneway:
            return Holding.NOT
        place = (header.topic, header.consumer_group, header.queue_id)
        return self.hold(place, ticket.born_ms + header.poll_time, ticket.request.peer, ticket)

    def hold(self, place: tuple[str, str, int], until_ms: int, peer: Peer, ticket: AnyPop) -> Holding:
        """Let a pop wait by topic, group and queue."""
        config = self.live.config
        limits = (config.max_pop_polling_size, config.pop_polling_size)
        return self.held.add(place, until_ms - self.clock.now_ms(), peer, ticket, limits, config.max_held_pull_bytes)

    def _wake_for_rest(self, ticket: PopTicket) -> None:
        """Let another pop of the same kind look for what was left."""
        if ticket.rest > 0:
            header = ticket.header
            self.held.wake(header.topic, header.consumer_group, header.queue_id)

    def _retry(self, waiter: SuspendedPull[AnyPop]) -> int:
        """Return how many messages it got; one if that is not known, or was none."""
        pop = waiter.ticket
        found = self._resumed.search(pop, is_last=False) if isinstance(pop, KernelPop) else None
        if found is None:
            before = self.held.dismissals
            return self._again(pop, lambda ticket: self._found_or_back(waiter, ticket, before))
        if not found:
            self.held.put_back(waiter)
        return found or 1

    def _found_or_back(self, waiter: SuspendedPull[AnyPop], ticket: PopTicket, dismissals: int) -> None:
        if ticket.records or self.held.dismissals != dismissals:
            self._answer_at_last(ticket)
        else:
            self.held.put_back(waiter)

    def _end(self, pop: AnyPop) -> None:
        if not isinstance(pop, KernelPop) or self._resumed.search(pop, is_last=True) is None:
            self._again(pop, self._answer_at_last)

    def _dismiss(self, pop: AnyPop) -> None:
        """Answer that nothing has come."""
        request = pop.request
        try:
            ticket = self._checked(request, pop.born_ms)
        except Exception as fault:
            answer(request, failed(request, fault))
            return
        ticket.begin(self.clock.now_ms(), *self.next_search())
        answer(request, ticket.reply(ResponseCode.POLLING_TIMEOUT))

    def _answer_at_last(self, ticket: PopTicket) -> None:
        if ticket.records:
            self._hand_out(ticket)
        else:
            answer(ticket.request, ticket.reply(ResponseCode.POLLING_TIMEOUT))

    def _again(self, held: AnyPop, then: Callable[[PopTicket], None]) -> int:
        """Check and look once more, as for a new request: topic, group or permission may be others by now. Return as
        `_retry`."""
        self._resumed.finish()
        request = held.request
        try:
            ticket = self._checked(request, held.born_ms)
            pending = self._search(ticket)
        except Exception as fault:
            answer(request, failed(request, fault))
            return 1
        if pending is None:
            then(ticket)
            return len(ticket.records) or 1
        task = asyncio.ensure_future(self._again_later(ticket, pending, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return 1

    async def _again_later(
        self, ticket: PopTicket, pending: Awaitable[None], then: Callable[[PopTicket], None]
    ) -> None:
        try:
            await pending
        except Exception as fault:
            answer(ticket.request, failed(ticket.request, fault))
        else:
            then(ticket)
