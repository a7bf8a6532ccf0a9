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
from ...store.layout import QUEUE_ENTRY_BYTES
from ...store.log.reader import SCAN_ENTRIES, GetStatus, Selection
from ...store.message_store import MessageStore
from ...transport.dispatch import Answer, Reply, RequestOf, await_answer, failed
from ..config import BrokerConfig
from ..filters.filtered_read import SEARCH_S, Matches, SearchResult, find_matches, selection_of
from ..filters.filters import AnyFilter
from ..metadata.offsets import Offsets
from .checks import PullChecks
from .long_poll import SuspendedPull
from .slow_readers import MOST_WAIT_S, Backlog, ColdReads
from .suspended import SuspendedPulls
from .tickets import AnyTicket, KernelTicket, Ticket, code_of, limits_of, reply_to, search_of, within_disk_limits

log = logs.get("pyromq.broker")

OFFSET_RESET = "OFFSET_RESET"
LONG_S = 0.000_5  # of one round for a suspended pull
COLD_AT_ONCE = 1  # of the composition root's helper threads one is for cold reads
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
    cold: ColdReads
    backlog: Backlog
    count: GetCounter
    missed: int = 0  # pulls that were answered with nothing
    durations: list[Callable[[], float]] = field(default_factory=list)  # the longest that each kernel knows of
    _longest_ms: float = 0.0
    _tasks: set[asyncio.Future[None]] = field(default_factory=set)
    # The log's sync must find a helper thread free, however many replay yesterday: they read by turns.
    _cold_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COLD_AT_ONCE))
    _now: Callable[[], float] = field(init=False)
    suspended: SuspendedPulls = field(init=False)

    def __post_init__(self) -> None:
        self._now = self.clock.monotonic
        self.suspended = SuspendedPulls(self.clock, self.store, self._retry, self._answer_due)

    def __call__(self, request: RequestOf[PullMessage, None]) -> Answer:
        header = request.header
        config = self.live.config
        allowed = self.checks.check(header, request.command.code, config)
        topic, group, queue_id = header.topic, header.consumer_group, header.queue_id
        commits = header.sys_flag & PullFlag.COMMIT_OFFSET
        self.note_pull(topic, group, queue_id, header.queue_offset, header.commit_offset if commits else -1)
        ticket = Ticket(request, header, allowed)
        reset = self.offsets.take_reset(topic, group, queue_id, header.queue_offset)
        if reset is not None:
            return self._reset(ticket, reset)
        if self._is_cold(header, config):
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
        record_filter = ticket.allowed.wanted.record_filter
        if record_filter is None:
            return self._answer_selection(ticket, self._select(ticket, ticket.header.queue_offset, config), config)
        ticket.begun = self.clock.monotonic()
        found = self._find_matches(ticket, ticket.header.queue_offset, record_filter, config)
        if found.unread is not None and found.selection.status is not GetStatus.FOUND:
            return self._filter_cold(ticket, found.unread)
        return self._answer_selection(ticket, found.selection, config)

    def _find_matches(self, ticket: Ticket, offset: int, wanted: AnyFilter, config: BrokerConfig) -> SearchResult:
        return find_matches(self.store.reader, search_of(ticket, offset, config), wanted, self._now)

    async def _filter_cold(self, ticket: Ticket, unread: Selection) -> Reply | None:
        """Answer with records that have to come from the medium before an expression can be asked of them."""
        config, record_filter = self.live.config, ticket.allowed.wanted.record_filter
        assert record_filter is not None
        stretch = within_disk_limits(unread, config)
        async with self._cold_turn:
            records = await self.store.read(stretch)
        matches = Matches(search_of(ticket, ticket.header.queue_offset, config))
        full = matches.take(records, record_filter, self._now, self._now() + SEARCH_S)
        selection = selection_of(stretch, matches, stretch.next_offset if full is None else full)
        return await await_answer(self._answer_selection(ticket, selection, config))

    def _answer_selection(self, ticket: Ticket, selection: Selection, config: BrokerConfig) -> Answer:
        header = ticket.header
        if selection.status is GetStatus.FOUND:
            return self._found(ticket, selection, config)
        is_nothing_yet = code_of(selection.status, header.queue_offset) == ResponseCode.PULL_NOT_FOUND
        if is_nothing_yet and self._suspend(ticket, config):
            return None
        return self._answer_nothing(ticket, selection)

    def _is_cold(self, header: PullMessage, config: BrokerConfig) -> bool:
        """Return whether the queue's entries are not in memory. Not asked near the queue's end."""
        queue, offset = self.store.queues.get(header.topic, header.queue_id), header.queue_offset
        if queue is None or not queue.min_offset <= offset < queue.readable_end - limits_of(header, config)[0]:
            return False
        return not queue.is_resident(offset, SCAN_ENTRIES)

    async def _select_cold(self, ticket: Ticket) -> Reply | None:
        """Select and answer after the entries were fetched in a helper thread."""
        header, config = ticket.header, self.live.config
        count, size = limits_of(header, config)
        ticket.begun = self.clock.monotonic()
        async with self._cold_turn:
            selection = await self.store.select(
                header.topic,
                header.queue_id,
                header.queue_offset,
                max_count=count,
                max_bytes=size,
                tag_codes=ticket.allowed.wanted.tag_codes,
            )
        if ticket.allowed.wanted.record_filter is not None:
            return await await_answer(self._select_first(ticket, config))
        return await await_answer(self._answer_selection(ticket, selection, config))

    def _select(self, ticket: Ticket, offset: int, config: BrokerConfig) -> Selection:
        header, wanted = ticket.header, ticket.allowed.wanted
        ticket.begun = self.clock.monotonic()
        if wanted.record_filter is not None:
            return self._find_matches(ticket, offset, wanted.record_filter, config).selection
        count, size = limits_of(header, config)
        return self.store.reader.select(
            header.topic,
            header.queue_id,
            offset,
            max_count=count,
            max_bytes=size,
            tag_codes=wanted.tag_codes,
            deep=config.max_filter_message_size // QUEUE_ENTRY_BYTES,
        )

    def _found(self, ticket: Ticket, selection: Selection, config: BrokerConfig) -> Reply | Awaitable[Reply]:
        records = self.store.reader.read_resident(selection.ranges)
        if records is None:
            return self._found_cold(ticket, within_disk_limits(selection, config))
        return self._hand_out(ticket, selection, records)

    async def _found_cold(self, ticket: Ticket, selection: Selection) -> Reply:
        """Read from the medium, in a helper thread, and less: someone who replays yesterday disturbs no producer."""
        size, config = sum(one.size for one in selection.ranges), self.live.config
        wait_s = self.cold.wait_s(
            ticket.header.consumer_group, size, config, self.clock.monotonic(), self.clock.now_ms()
        )
        if wait_s:
            await self.clock.sleep(min(wait_s, MOST_WAIT_S))
        if wait_s > MOST_WAIT_S:
            at = selection.ranges[0].queue_offset
            later = Selection(selection.status, (), at, selection.min_offset, selection.max_offset)
            return reply_to(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "COLD_DATA_FLOW_CONTROL", later)
        async with self._cold_turn:
            records = await self.store.read(selection)
        return self._hand_out(ticket, selection, records, from_disk=True)

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
        return reply_to(ticket, ResponseCode.SUCCESS, GetStatus.FOUND.value, selection, body)

    def _answer_nothing(self, ticket: Ticket, selection: Selection) -> Reply:
        self.missed += 1
        code = code_of(selection.status, ticket.header.queue_offset)
        return reply_to(ticket, code, selection.status.value, selection)

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
            ticket = pull.ticket = ticket.decoded()
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

    def _send(self, ticket: Ticket, answer: Reply | Awaitable[Reply]) -> None:
        if isinstance(answer, Reply):
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
        ticket.request.peer.send(reply.to_command(ticket.request.command))
