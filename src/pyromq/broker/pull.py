"""Pulling: requests 11 and 361. Check, commit what comes along, select, read, answer; or hold until there is something.

A pull that finds nothing waits in `long_poll` without a task. Arrivals of one turn of the loop are looked at together,
so that many sends to a queue wake its readers once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .. import logs
from ..ambient import Clock, Timer
from ..config import Live
from ..kernel.records import Range
from ..model.codes import ResponseCode
from ..protocol.frame import decode_frames
from ..protocol.headers.pull import PullMessage, PullMessageAnswer
from ..store.layout import QUEUE_ENTRY_BYTES
from ..store.message_store import MessageStore
from ..store.queue import MessageQueue
from ..store.reader import SCAN_ENTRIES, GetStatus, Selection
from ..transport.dispatch import Answer, Reply, Request, await_answer, failed
from ..transport.peer import Peer
from .config import BrokerConfig
from .long_poll import HeldPull, LongPoll
from .metadata.offsets import Offsets
from .pull_checks import Allowed, PullChecks, PullFlag
from .sifting import Catch, Search, caught, sift
from .slow_readers import MOST_WAIT_S, Backlog, ColdReads

log = logs.get("pyromq.broker")

OFFSET_RESET = "OFFSET_RESET"
COLD_AT_ONCE = 1  # of the composition root's helper threads one is for cold reads
_LOOKS = (
    16  # how often a woken pull looks on behind entries that do not match, before its client is asked to come again
)


class FramePeer(Peer, Protocol):
    """A peer that takes frames as a kernel has made them."""

    def send_now(self, frames: bytes) -> None: ...


# Called with topic, group, queue, messages and bytes of everything that was handed out, the ms that it took to find and
# read it, and whether it came from the medium.
GetCounter = Callable[[str, str, int, int, int, float, bool], None]


@dataclass(slots=True)
class Ticket:
    """A pull that is held: what is needed to look again and to answer."""

    request: Request
    header: PullMessage
    allowed: Allowed
    begun: float = 0.0  # when the look that is under way began


@dataclass(slots=True)
class KernelTicket:
    """A pull that a kernel took and found nothing for. It is decoded only if the kernel cannot answer it after all."""

    connection: FramePeer
    frame: bytes
    allowed: Allowed
    again: Callable[[int], bytes | None]  # the kernel's answer from an offset on, if it has one

    def decoded(self) -> Ticket:
        request = Request(decode_frames(self.frame)[0][0], self.connection)
        return Ticket(request, request.header(PullMessage), self.allowed)


class PullHandler:
    """Event loop only."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        clock: Clock,
        store: MessageStore,
        checks: PullChecks,
        offsets: Offsets,
        cold: ColdReads,
        backlog: Backlog,
        count: GetCounter = lambda topic, group, queue_id, messages, size, ms, from_disk: None,
    ) -> None:
        self._live = live
        self._clock = clock
        self._store = store
        self._checks = checks
        self._offsets = offsets
        self._cold = cold
        self._backlog = backlog
        self._count = count
        self.missed = 0  # pulls that were answered with nothing
        self.longest_ms = 0.0  # that one took from the look at its queue to the records in hand
        self._polls: LongPoll[Ticket | KernelTicket] = LongPoll()
        self._arrived: dict[tuple[str, int], MessageQueue] = {}
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Future[None]] = set()
        # The log's sync must find a helper thread free, however many replay yesterday: they read by turns.
        self._cold_turn = asyncio.Semaphore(COLD_AT_ONCE)
        store.on_arrival(self._note_arrival)

    def __call__(self, request: Request) -> Answer:
        header = request.header(PullMessage)
        config = self._live.config
        allowed = self._checks.check(header, request.command.code, config)
        topic, group, queue_id = header.topic, header.consumer_group, header.queue_id
        commits = header.sys_flag & PullFlag.COMMIT_OFFSET
        self.asked(topic, group, queue_id, header.queue_offset, header.commit_offset if commits else -1)
        ticket = Ticket(request, header, allowed)
        reset = self._offsets.take_reset(topic, group, queue_id)
        if reset is not None:
            return self._reset(ticket, reset)
        if self._is_cold(header, config):
            return self._look_cold(ticket)
        return self._look_first(ticket, config)

    # --- what a kernel tells too ------------------------------------------------------------------------------------

    def asked(self, topic: str, group: str, queue_id: int, offset: int, commit: int) -> None:
        """A pull came for an offset, and may say (else -1) how far everything is consumed."""
        if commit >= 0:
            self._offsets.commit(topic, group, queue_id, commit)
        self._offsets.note_pulled(topic, group, queue_id, offset)

    def gave(
        self,
        topic: str,
        group: str,
        queue_id: int,
        messages: int,
        size: int,
        position: int,
        begun: float,
        from_disk: bool = False,
    ) -> None:
        """Messages were handed out, the first from this position of the log; the look began then."""
        self._backlog.note(group, self._store.commit_log.end - position)
        took_ms = (self._clock.monotonic() - begun) * 1000
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms
        self._count(topic, group, queue_id, messages, size, took_ms, from_disk)

    def hold_frame(self, header: tuple[str, int, int], wait_ms: int, ticket: KernelTicket) -> bool:
        """Hold a pull that a kernel found nothing for, by topic, queue and offset. False: Python shall answer it."""
        return self._keep(*header, wait_ms, ticket.connection, ticket, self._live.config)

    # --- looking --------------------------------------------------------------------------------------------------

    def _look_first(self, ticket: Ticket, config: BrokerConfig) -> Answer:
        sieve = ticket.allowed.wanted.sieve
        if sieve is None:
            return self._look(ticket, self._select(ticket, ticket.header.queue_offset, config), config)
        ticket.begun = self._clock.monotonic()
        sifted = sift(self._store.reader, _search(ticket, ticket.header.queue_offset, config), sieve)
        if sifted.unread is not None and sifted.selection.status is not GetStatus.FOUND:
            return self._sift_cold(ticket, sifted.unread)
        return self._look(ticket, sifted.selection, config)

    async def _sift_cold(self, ticket: Ticket, unread: Selection) -> Reply | None:
        """Records that have to come from the medium before an expression can be asked of them."""
        config, sieve = self._live.config, ticket.allowed.wanted.sieve
        assert sieve is not None
        stretch = _colder(unread, config)
        async with self._cold_turn:
            records = await self._store.read(stretch)
        catch = Catch(_search(ticket, ticket.header.queue_offset, config))
        full = catch.take(records, sieve)
        selection = caught(stretch, catch, stretch.next_offset if full is None else full)
        return await await_answer(self._look(ticket, selection, config))

    def _look(self, ticket: Ticket, selection: Selection, config: BrokerConfig) -> Answer:
        header = ticket.header
        if selection.status is GetStatus.FOUND:
            return self._found(ticket, selection, config)
        if _code(selection.status, header.queue_offset) == ResponseCode.PULL_NOT_FOUND and self._hold(ticket, config):
            return None
        return self._nothing(ticket, selection)

    def _is_cold(self, header: PullMessage, config: BrokerConfig) -> bool:
        """Whether already the queue's entries would have to come from the medium. Near its end nobody looks."""
        queue, offset = self._store.queues.get(header.topic, header.queue_id), header.queue_offset
        if queue is None or not queue.min_offset <= offset < queue.readable_end - limits_of(header, config)[0]:
            return False
        return not queue.is_resident(offset, SCAN_ENTRIES)

    async def _look_cold(self, ticket: Ticket) -> Reply | None:
        """The same after the entries were fetched in a helper thread."""
        header, config = ticket.header, self._live.config
        count, size = limits_of(header, config)
        ticket.begun = self._clock.monotonic()
        async with self._cold_turn:
            selection = await self._store.select(
                header.topic,
                header.queue_id,
                header.queue_offset,
                max_count=count,
                max_bytes=size,
                tag_codes=ticket.allowed.wanted.tag_codes,
            )
        if ticket.allowed.wanted.sieve is not None:
            return await await_answer(self._look_first(ticket, config))
        return await await_answer(self._look(ticket, selection, config))

    def _select(self, ticket: Ticket, offset: int, config: BrokerConfig) -> Selection:
        header, wanted = ticket.header, ticket.allowed.wanted
        ticket.begun = self._clock.monotonic()
        if wanted.sieve is not None:
            return sift(self._store.reader, _search(ticket, offset, config), wanted.sieve).selection
        count, size = limits_of(header, config)
        return self._store.reader.select(
            header.topic,
            header.queue_id,
            offset,
            max_count=count,
            max_bytes=size,
            tag_codes=wanted.tag_codes,
            deep=config.max_filter_message_size // QUEUE_ENTRY_BYTES,
        )

    def _found(self, ticket: Ticket, selection: Selection, config: BrokerConfig) -> Reply | Awaitable[Reply]:
        records = self._store.reader.read_resident(selection.ranges)
        if records is None:
            return self._found_cold(ticket, _colder(selection, config))
        return self._give(ticket, selection, records)

    async def _found_cold(self, ticket: Ticket, selection: Selection) -> Reply:
        """From the medium, in a helper thread, and less of it: someone who replays yesterday disturbs no producer."""
        size, config = sum(one.size for one in selection.ranges), self._live.config
        wait_s = self._cold.wait_s(
            ticket.header.consumer_group, size, config, self._clock.monotonic(), self._clock.now_ms()
        )
        if wait_s:
            await self._clock.sleep(min(wait_s, MOST_WAIT_S))
        if wait_s > MOST_WAIT_S:
            at = selection.ranges[0].queue_offset
            later = Selection(selection.status, (), at, selection.min_offset, selection.max_offset)
            return self._answer(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "COLD_DATA_FLOW_CONTROL", later)
        async with self._cold_turn:
            records = await self._store.read(selection)
        return self._give(ticket, selection, records, from_disk=True)

    def _give(self, ticket: Ticket, selection: Selection, records: Sequence[bytes], from_disk: bool = False) -> Reply:
        if not records:  # all of them were damaged: go on behind them
            return self._answer(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING", selection)
        body = b"".join(records)
        header, position = ticket.header, selection.ranges[0].position
        group, queue_id = header.consumer_group, header.queue_id
        self.gave(header.topic, group, queue_id, len(records), len(body), position, ticket.begun, from_disk)
        return self._answer(ticket, ResponseCode.SUCCESS, GetStatus.FOUND.value, selection, body)

    def _nothing(self, ticket: Ticket, selection: Selection) -> Reply:
        self.missed += 1
        code = _code(selection.status, ticket.header.queue_offset)
        return self._answer(ticket, code, selection.status.value, selection)

    def _reset(self, ticket: Ticket, offset: int) -> Reply:
        """An administrator moved the group: the client drops what it has and goes on there."""
        queue = self._store.queues.get(ticket.header.topic, ticket.header.queue_id)
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.readable_end)
        moved = Selection(GetStatus.FOUND, (), offset, low, high)  # no entry is read for it: it may be a cold one
        return self._answer(ticket, ResponseCode.PULL_OFFSET_MOVED, OFFSET_RESET, moved)

    def _answer(self, ticket: Ticket, code: int, remark: str, selection: Selection, body: bytes = b"") -> Reply:
        header = PullMessageAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=selection.next_offset,
            min_offset=selection.min_offset,
            max_offset=selection.max_offset,
            topic_sys_flag=ticket.allowed.topic.topic_sys_flag,
            group_sys_flag=ticket.allowed.group.group_sys_flag,
        )
        return Reply(code, remark=remark, header=header, body=body)

    # --- holding --------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return len(self._polls)

    def waiting(self) -> list[HeldPull[Ticket | KernelTicket]]:
        """For the inspection command."""
        return list(self._polls.held())

    def _hold(self, ticket: Ticket, config: BrokerConfig) -> bool:
        header = ticket.header
        if not header.sys_flag & PullFlag.SUSPEND or ticket.request.command.is_oneway:
            return False
        place = (header.topic, header.queue_id, header.queue_offset)
        return self._keep(*place, header.suspend_timeout_millis, ticket.request.peer, ticket, config)

    def _keep(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        wait_ms: int,
        peer: Peer,
        ticket: Ticket | KernelTicket,
        config: BrokerConfig,
    ) -> bool:
        if not config.long_polling_enable:
            wait_ms = config.short_polling_time_mills
        if wait_ms <= 0 or len(self._polls) >= config.max_held_pulls:
            return False
        deadline = self._clock.monotonic() + wait_ms / 1000
        self._polls.hold(HeldPull(topic, queue_id, offset, deadline, peer, ticket))
        self._set_timer()
        return True

    def lost(self, peer: Peer) -> None:
        """The connection is gone: nobody waits any more."""
        self._polls.drop(peer)

    def topic_changed(self, topic: str) -> None:
        """Its permission may have changed, or it is gone: those who wait are answered and ask again."""
        for pull in self._polls.take_topic(topic):
            self._answer_held(pull)

    def stop(self) -> None:
        """Answer everyone, so that they turn to another broker at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pull in self._polls.take_all():
            self._answer_held(pull)

    def _note_arrival(self, queue: MessageQueue) -> None:
        if not self._polls:
            return
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._serve_arrivals)
        self._arrived[queue.topic, queue.queue_id] = queue

    def _serve_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for (topic, queue_id), queue in arrived.items():
            for pull in self._polls.take_arrived(topic, queue_id, queue.readable_end):
                self._look_again(pull)

    def _unless_answered(self, pull: HeldPull[Ticket | KernelTicket]) -> Ticket | None:
        """None: the kernel that had taken it has answered. Else it is Python's from now on."""
        ticket = pull.ticket
        if isinstance(ticket, KernelTicket):
            frames = ticket.again(pull.offset)
            if frames is not None:
                ticket.connection.send_now(frames)
                return None
            ticket = pull.ticket = ticket.decoded()
        return ticket

    def _look_again(self, pull: HeldPull[Ticket | KernelTicket]) -> None:
        """Something new is there. If none of it matches the pull goes on waiting, behind what was looked at."""
        ticket, config = self._unless_answered(pull), self._live.config
        if ticket is None:
            return
        looks = _LOOKS if ticket.allowed.wanted.sieve is None else 1
        for _ in range(looks):
            selection = self._select(ticket, pull.offset, config)
            if selection.status is GetStatus.FOUND:
                self._send(ticket, self._found(ticket, selection, config))
                return
            if selection.status is not GetStatus.NO_MATCHED_MESSAGE:
                break
            pull.offset = selection.next_offset
            if pull.offset >= selection.max_offset:
                break
        if selection.status is GetStatus.NO_MATCHED_MESSAGE and pull.offset >= selection.max_offset:
            self._polls.hold(pull)
            self._set_timer()
            return
        self._send(ticket, self._nothing(ticket, selection))

    def _set_timer(self) -> None:
        """One timer for all: set for the earliest deadline, never later."""
        due = self._polls.next_deadline()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._clock.call_later(max(0.0, due - self._clock.monotonic()), self._serve_due)

    def _serve_due(self) -> None:
        self._timer = None
        for pull in self._polls.take_due(self._clock.monotonic()):
            self._answer_held(pull)
        self._set_timer()

    def _answer_held(self, pull: HeldPull[Ticket | KernelTicket]) -> None:
        """Its time is over: one last look, and an answer whatever it finds."""
        ticket, config = self._unless_answered(pull), self._live.config
        if ticket is None:
            return
        selection = self._select(ticket, pull.offset, config)
        if selection.status is GetStatus.FOUND:
            self._send(ticket, self._found(ticket, selection, config))
        elif pull.offset > ticket.header.queue_offset:
            # What was looked at in the meantime need not be looked at again.
            self._send(
                ticket, self._answer(ticket, ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", selection)
            )
        else:
            self._send(ticket, self._nothing(ticket, selection))

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


def limits_of(header: PullMessage, config: BrokerConfig) -> tuple[int, int]:
    """Messages and bytes of one pull; the first message is given whatever its size."""
    if header.consumer_group in config.large_pull_groups:
        count, size = config.large_pull_count, config.large_pull_bytes
    else:
        count = config.max_transfer_count_on_message_in_memory
        size = config.max_transfer_bytes_on_message_in_memory
    wanted = header.max_msg_bytes
    return max(1, min(header.max_msg_nums, count)), size if wanted is None or wanted <= 0 else min(wanted, size)


def _search(ticket: Ticket, offset: int, config: BrokerConfig) -> Search:
    count, size = limits_of(ticket.header, config)
    return Search(ticket.header.topic, ticket.header.queue_id, offset, count, size)


def _colder(selection: Selection, config: BrokerConfig) -> Selection:
    """As much of a selection as may come from disk at once."""
    taken: list[Range] = []
    size = 0
    for one in selection.ranges:
        size += one.size
        too_many = len(taken) >= config.max_transfer_count_on_message_in_disk
        if taken and (too_many or size > config.max_transfer_bytes_on_message_in_disk):
            return Selection(selection.status, taken, one.queue_offset, selection.min_offset, selection.max_offset)
        taken.append(one)
    return selection


def _code(status: GetStatus, offset: int) -> ResponseCode:
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return {
        GetStatus.FOUND: ResponseCode.SUCCESS,
        GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
        GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    }.get(status, ResponseCode.PULL_OFFSET_MOVED)
