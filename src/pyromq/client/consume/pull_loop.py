"""Pulls the queues of a push consumer: pull after pull while its handlers keep up, pauses otherwise.

`assignment.py` runs one loop per assigned queue. One pull is in `pulling.py`; messages go to the consume service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import logs
from ...errors import CallFailed, ProtocolError
from ...model.codes import ResponseCode
from ...protocol.pulls import Pulled
from ..connect.session import Session
from ..core.retry import announced_pause_s, growing_pause_s
from ..errors import Error
from ..subscription import Filter
from .consume_service import AssignedQueue, ConsumeService
from .group_calls import OffsetStore
from .options import ConsumeOptions
from .pulling import NotRead, Puller, PullRequest, PullResult, log_unreadable
from .start_offsets import StartOffsets

log = logs.get("pyromq.client")

ERROR_PAUSE_S = 3.0
AWAY_PAUSE_S = 0.2  # the first time, where nobody answered
BUSY_PAUSE_S = 0.02
FULL_PAUSE_S = 0.05
PAUSED_S = 1.0
FULL_LOG_EVERY = 1000


@dataclass(slots=True, eq=False, repr=False)
class PullLoop:
    """Event loop only. One per consumer, for all its queues."""

    session: Session
    group: str
    filters: Mapping[str, Filter]
    options: ConsumeOptions
    offsets: OffsetStore
    starts: StartOffsets
    service: ConsumeService
    is_paused: bool = field(init=False, default=False)
    unreadable: int = field(init=False, default=0)  # records that came and that nobody can read
    puller: Puller = field(init=False)

    def __post_init__(self) -> None:
        self.puller = Puller(self.session, self.group)

    async def run(self, assigned: AssignedQueue) -> int | None:
        """Pull until the queue is given up: None. An offset: the queue is to begin anew there.

        The broker wants it so, or its topic was deleted: another one of the same name is read from its first message.
        """
        failures = 0
        while not assigned.is_over:
            pause_s = self._reason_to_wait(assigned)
            if pause_s == 0:
                try:
                    result = await self._pull(assigned)
                except (Error, ProtocolError) as fault:
                    self.session.outages.warn("pull failed", fault, group=self.group, queue=str(assigned.queue))
                    if assigned.next_offset > 0 and self.puller.is_gone(assigned.queue, fault):
                        self.starts.expect(assigned.queue.topic)
                        return 0
                    failures += 1
                    pause_s = self._pause_after(fault, failures)
                else:
                    failures = 0
                    if assigned.is_over:
                        break
                    assigned.pulled_ms = self.session.clock.now_ms()
                    if result.status is not Pulled.ILLEGAL_OFFSET:
                        pause_s = self._accept(assigned, result)
                    elif not assigned.confirms_offset(result.next_offset):
                        return result.next_offset
            if pause_s > 0:
                await self.session.clock.sleep(pause_s)
        return None

    def _pause_after(self, fault: Exception, failures: int) -> float:
        """Return the seconds before the next pull: a broker that is away may have another master in a moment."""
        if getattr(fault, "code", None) == ResponseCode.SYSTEM_BUSY:
            return announced_pause_s(fault, BUSY_PAUSE_S, self.session.rng)
        if isinstance(fault, CallFailed) or (isinstance(fault, NotRead) and fault.was_master):
            return growing_pause_s(AWAY_PAUSE_S, ERROR_PAUSE_S, failures, self.session.rng)
        return ERROR_PAUSE_S

    def _reason_to_wait(self, assigned: AssignedQueue) -> float:
        """Return the seconds for which this queue must not be pulled."""
        if self.is_paused:
            return PAUSED_S
        if self.options.orderly and self.session.clock.monotonic() >= assigned.locked_until:
            return ERROR_PAUSE_S
        full = assigned.process.full()
        if full is None:
            return 0
        if assigned.process.times_full % FULL_LOG_EVERY == 1:
            log.warning("handlers are behind, pulls wait", group=self.group, queue=str(assigned.queue), held=full)
        return FULL_PAUSE_S

    async def _pull(self, assigned: AssignedQueue) -> PullResult:
        queue, process, options = assigned.queue, assigned.process, self.options
        if assigned.next_offset < 0:
            assigned.next_offset = await self.starts.find(queue)
            await self.starts.commit()
        commit = None if options.broadcast else process.commit_offset()
        most, hold_s, wanted = options.pull_messages, options.hold_s, self.filters[queue.topic]
        request = PullRequest(queue, assigned.next_offset, wanted, most, hold_s, commit, process.room)
        return await self.puller.pull(request)

    def _accept(self, assigned: AssignedQueue, result: PullResult) -> float:
        """Hand the messages on. Return the seconds to wait before the next pull."""
        if result.unreadable:
            self.unreadable += len(result.unreadable)
            log_unreadable(self.group, assigned.queue, result.unreadable, self.options.unreadable_way)
        assigned.process.add(result.messages)
        assigned.process.skip_to(result.next_offset)
        is_going_on = result.next_offset > assigned.next_offset
        assigned.next_offset = result.next_offset
        if result.messages:
            self.service.offer(assigned)
        return 0 if is_going_on or result.status is Pulled.NONE else BUSY_PAUSE_S
