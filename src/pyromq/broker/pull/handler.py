"""Pulling: requests 11 and 361. Check, commit what comes along, select, read, answer; or suspend.

What finds nothing waits in `suspended`, which calls back when there is something new, or when its time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ... import logs
from ...ambient import Clock
from ...config import Live
from ...kernel.state import PulledOffset
from ...model.codes import ResponseCode
from ...protocol.headers.pull import PullMessage
from ...protocol.pulls import PullFlag
from ...store.log.reader import GetStatus, Selection
from ...store.message_store import MessageStore
from ...transport.dispatch import Answer, Reply, RequestOf, await_answer, failed
from ..config import BrokerConfig
from ..metadata.offsets import Offsets
from ..reading.long_poll import SuspendedPull
from ..reading.popped import PoppedLanes
from ..reading.queue_reads import QueueReads
from ..reading.slow_readers import Backlog
from .checks import PullChecks
from .slave_reads import SlaveReads
from .suspended import SuspendedPulls
from .tickets import AnyTicket, KernelTicket, Ticket, reply_to, search_of

log = logs.get("pyromq.broker")

OFFSET_RESET = "OFFSET_RESET"
LONG_S = 0.000_5  # of one round for a suspended pull
_ROUNDS = 16  # for a resumed pull, on behind entries that do not match, before its client is asked to come again

# Called with topic, group, queue, messages and bytes of everything that was handed out, the ms that it took to find and
# read it, and whether it came from the medium.
GetCounter = Callable[[str, str, int, int, int, float, bool], None]


@dataclass(slots=True, eq=False, repr=False)
class PullHandler:
    """Event loop only."""

    live: Live[BrokerConfig]
    clock: Clock
    store: MessageStore
    checks: PullChecks
    offsets: Offsets
    reads: QueueReads
    backlog: Backlog
    count: GetCounter
    slave_reads: SlaveReads
    pops: PoppedLanes | None = None  # queues that groups pop
    missed: int = 0  # pulls that were answered with nothing
    durations: list[Callable[[], float]] = field(default_factory=list)  # the longest that each kernel knows of
    _longest_ms: float = 0.0
    _tasks: set[asyncio.Future[None]] = field(default_factory=set)
    _now: Callable[[], float] = field(init=False)
    suspended: SuspendedPulls = field(init=False)

    def __post_init__(self) -> None:
        self._now = self.clock.monotonic
        self.suspended = SuspendedPulls(self.clock, self.store, self._retry, self._answer_due, self._dismiss)

    def __call__(self, request: RequestOf[PullMessage, None]) -> Answer:
        self.slave_reads.check()
        header = request.header
        allowed = self.checks.check(header, request.command.code, self.live.config)
        # Now, not where a coroutine begins: that is a turn later.
        ticket = Ticket(request, header, allowed, self.suspended.dismissals)
        if self.pops is not None:
            leaving = self.pops.leave_for(request.peer, header.topic, header.consumer_group, header.queue_id)
            if leaving is not None:
                return self._pull_after(leaving, ticket)
        return self._pull(ticket)

    async def _pull_after(self, leaving: Awaitable[None], ticket: Ticket) -> Reply | None:
        await leaving
        if self._is_dismissed(ticket):
            return self._dismissal(ticket, ticket.header.queue_offset)
        return await await_answer(self._pull(ticket))

    def _pull(self, ticket: Ticket) -> Answer:
        config, header = self.live.config, ticket.header
        topic, group, queue_id = header.topic, header.consumer_group, header.queue_id
        commits = header.sys_flag & PullFlag.COMMIT_OFFSET
        self.note_pull(topic, group, queue_id, header.queue_offset, header.commit_offset if commits else -1)
        reset = self.offsets.take_reset(topic, group, queue_id, header.queue_offset)
        if reset is not None:
            return self._reset(ticket, reset)
        if self.reads.is_cold(search_of(ticket, header.queue_offset, config)):
            return self._select_cold(ticket)
        return self._select_first(ticket, config)

    # --- what is noted, whoever answers -----------------------------------------------------------------------------

    @property
    def longest_ms(self) -> float:
        """Return the most that a pull took from its queue to the records in hand."""
        return max(self._longest_ms, *(longest() for longest in self.durations), 0.0)

    def note_pull(self, topic: str, group: str, queue_id: int, offset: int, commit: int) -> PulledOffset | None:
        """Note the offset, and commit unless `commit` is -1. Return where a kernel may note further offsets.

        A pull that comes after a reset brings the offset from before it, which is not committed.
        """
        if commit >= 0 and not self.offsets.has_reset(topic, group, queue_id):
            self.offsets.commit(topic, group, queue_id, commit)
        return self.offsets.note_pulled(topic, group, queue_id, offset)

    # --- selecting ------------------------------------------------------------------------------------------------

    def _select_first(self, ticket: Ticket, config: BrokerConfig) -> Answer:
        ticket.begun = self.clock.monotonic()
        search = search_of(ticket, ticket.header.queue_offset, config)
        found = self.reads.find(search, ticket.allowed.wanted, config)
        if found.unread is not None and found.selection.status is not GetStatus.FOUND:
            return self._filter_cold(ticket, found.unread)
        return self._answer_selection(ticket, found.selection, config)

    async def _filter_cold(self, ticket: Ticket, unread: Selection) -> Reply | None:
        """Answer with records that have to come from the medium before an expression can be asked of them."""
        config = self.live.config
        search = search_of(ticket, ticket.header.queue_offset, config)
        selection = await self.reads.match_cold(search, ticket.allowed.wanted, unread, config)
        if self._is_dismissed(ticket):
            return self._dismissal(ticket, search.offset)
        return await await_answer(self._answer_selection(ticket, selection, config))

    def _answer_selection(self, ticket: Ticket, selection: Selection, config: BrokerConfig) -> Answer:
        if selection.status is GetStatus.FOUND:
            return self._found(ticket, selection, config)
        code, _ = self.slave_reads.nothing_here(selection, ticket.header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and self._suspend(ticket, config):
            return None
        return self._answer_nothing(ticket, selection)

    async def _select_cold(self, ticket: Ticket) -> Reply | None:
        """Select and answer after the entries were fetched in a helper thread."""
        config = self.live.config
        ticket.begun = self.clock.monotonic()
        search = search_of(ticket, ticket.header.queue_offset, config)
        found = await self.reads.find_cold(search, ticket.allowed.wanted, config)
        if self._is_dismissed(ticket):
            return self._dismissal(ticket, search.offset)
        if found.unread is not None and found.selection.status is not GetStatus.FOUND:
            return await self._filter_cold(ticket, found.unread)
        return await await_answer(self._answer_selection(ticket, found.selection, config))

    def _select(self, ticket: Ticket, offset: int, config: BrokerConfig) -> Selection:
        ticket.begun = self.clock.monotonic()
        return self.reads.find(search_of(ticket, offset, config), ticket.allowed.wanted, config).selection

    def _found(self, ticket: Ticket, selection: Selection, config: BrokerConfig) -> Reply | Awaitable[Reply]:
        records = self.store.reader.read_resident(selection.ranges)
        if records is None:
            return self._found_cold(ticket, selection)
        return self._hand_out(ticket, selection, records)

    async def _found_cold(self, ticket: Ticket, selection: Selection) -> Reply:
        """Answer with what a helper thread reads from the medium, or with the request to come again later."""
        read = await self.reads.read_cold(ticket.header.consumer_group, selection, self.live.config)
        if self._is_dismissed(ticket):
            return self._dismissal(ticket, ticket.header.queue_offset)
        if read.records is None:
            return reply_to(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "COLD_DATA_FLOW_CONTROL", read.selection)
        return self._hand_out(ticket, read.selection, read.records, from_disk=True)

    def _hand_out(
        self, ticket: Ticket, selection: Selection, records: Sequence[bytes], from_disk: bool = False
    ) -> Reply:
        if not records:  # all of them were damaged: go on behind them
            return reply_to(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING", selection)
        header, body = ticket.header, b"".join(records)
        group, took_ms = header.consumer_group, (self._now() - ticket.begun) * 1000
        self._longest_ms = max(self._longest_ms, took_ms)
        self.backlog.note(group, self.store.commit_log.end - selection.ranges[0].position)
        self.count(header.topic, group, header.queue_id, len(records), len(body), took_ms, from_disk)
        suggested = self.slave_reads.suggested(ticket.allowed.group, selection)
        return reply_to(ticket, ResponseCode.SUCCESS, GetStatus.FOUND.value, selection, body, suggested)

    def _answer_nothing(self, ticket: Ticket, selection: Selection) -> Reply:
        self.missed += 1
        code, shown = self.slave_reads.nothing_here(selection, ticket.header.queue_offset)
        return reply_to(ticket, code, selection.status.value, shown)

    def _reset(self, ticket: Ticket, offset: int) -> Reply:
        """Answer that an administrator moved the group: the client drops what it has and goes on there."""
        queue = self.store.queues.get(ticket.header.topic, ticket.header.queue_id)
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.readable_end)
        moved = Selection(GetStatus.FOUND, (), offset, low, high)  # no entry is read for it: it may be a cold one
        return reply_to(ticket, ResponseCode.PULL_OFFSET_MOVED, OFFSET_RESET, moved)

    # --- suspending -----------------------------------------------------------------------------------------------

    def _suspend(self, ticket: Ticket, config: BrokerConfig) -> bool:
        header = ticket.header
        if not header.sys_flag & PullFlag.SUSPEND or ticket.request.command.is_oneway:
            return False
        place = (header.topic, header.queue_id, header.queue_offset)
        return self.suspended.add(place, header.suspend_timeout_millis, ticket.request.peer, ticket, config)

    def _unless_answered(self, pull: SuspendedPull[AnyTicket]) -> Ticket | None:
        """Return the ticket, Python's from now on; None: the kernel that had suspended the pull has answered."""
        ticket = pull.ticket
        if isinstance(ticket, KernelTicket):
            frames = ticket.answer_from(pull.offset)
            if frames is not None:
                ticket.connection.send_now(frames)
                return None
            ticket = pull.ticket = ticket.decoded(self.suspended.dismissals)
        return ticket

    def _retry(self, pull: SuspendedPull[AnyTicket]) -> bool:
        """Answer with what is new. If none of it matches the pull goes on waiting, behind what was searched."""
        ticket, config = self._unless_answered(pull), self.live.config
        if ticket is None:
            return False
        rounds = _ROUNDS if ticket.allowed.wanted.record_filter is None else 1
        for _ in range(rounds):
            selection = self._select(ticket, pull.offset, config)
            if selection.status is GetStatus.FOUND:
                self._send(ticket, self._found(ticket, selection, config))
                return self._took_long(ticket)
            if selection.status is not GetStatus.NO_MATCHED_MESSAGE:
                break
            pull.offset = selection.next_offset
            if pull.offset >= selection.max_offset:
                break
        if selection.status is GetStatus.NO_MATCHED_MESSAGE and pull.offset >= selection.max_offset:
            self.suspended.put_back(pull)
        else:
            self._send(ticket, self._answer_nothing(ticket, selection))
        return self._took_long(ticket)

    def _took_long(self, ticket: Ticket) -> bool:
        """Return whether this round was long. Asked only for expressions: what those cost is the client's choice."""
        return ticket.allowed.wanted.record_filter is not None and self._now() - ticket.begun > LONG_S

    def _answer_due(self, pull: SuspendedPull[AnyTicket]) -> bool:
        """Search once more and answer, whatever is found: the time of the pull is over."""
        ticket, config = self._unless_answered(pull), self.live.config
        if ticket is None:
            return False
        selection = self._select(ticket, pull.offset, config)
        if selection.status is GetStatus.FOUND:
            self._send(ticket, self._found(ticket, selection, config))
        elif pull.offset > ticket.header.queue_offset:
            # What was searched in the meantime need not be searched again.
            self._send(ticket, reply_to(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", selection))
        else:
            self._send(ticket, self._answer_nothing(ticket, selection))
        return self._took_long(ticket)

    def _dismiss(self, pull: SuspendedPull[AnyTicket]) -> None:
        """Answer that nothing has come."""
        ticket = pull.ticket
        if isinstance(ticket, KernelTicket):
            ticket = ticket.decoded(self.suspended.dismissals)
        self._send(ticket, self._dismissal(ticket, pull.offset))

    def _is_dismissed(self, ticket: Ticket) -> bool:
        """Return whether all pulls were dismissed since this one was judged, while it neither waited nor had an
        answer: it may not wait any more, nor have what was read for it."""
        return ticket.dismissals != self.suspended.dismissals

    def _dismissal(self, ticket: Ticket, offset: int) -> Reply:
        queue = self.store.queues.get(ticket.header.topic, ticket.header.queue_id)
        low = 0 if queue is None else queue.min_offset
        nothing = Selection(GetStatus.OFFSET_OVERFLOW_ONE, (), offset, low, offset)
        return self._answer_nothing(ticket, nothing)

    def _send(self, ticket: Ticket, answer: Reply | Awaitable[Reply]) -> None:
        if isinstance(answer, Reply):
            ticket.request.answered(answer)
            ticket.request.note_answer(answer.code, held=True)
            ticket.request.peer.send(answer.to_command(ticket.request.command))
        else:
            task = asyncio.ensure_future(self._send_later(ticket, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_later(self, ticket: Ticket, answer: Awaitable[Reply]) -> None:
        try:
            reply = await answer
        except Exception as fault:
            reply = failed(ticket.request, fault)
        ticket.request.answered(reply)
        ticket.request.note_answer(reply.code, held=True)
        ticket.request.peer.send(reply.to_command(ticket.request.command))
