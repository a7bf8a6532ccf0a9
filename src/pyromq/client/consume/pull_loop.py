"""Pulls the queues of a push consumer: pull after pull while its handlers keep up, pauses otherwise.

`assignment.py` runs one loop per assigned queue. One pull is in `pulling.py`; messages go to the consume service.
"""

from __future__ import annotations

from collections.abc import Mapping

from ... import logs
from ...errors import ProtocolError
from ...model.codes import ResponseCode
from ...protocol.pulls import Pulled
from ..connect.session import Session
from ..errors import Error
from ..subscription import Filter
from .consume_service import AssignedQueue, ConsumeService
from .group_calls import OffsetStore, start_offset
from .options import ConsumeOptions
from .pulling import Puller, PullResult, log_unreadable

log = logs.get("pyromq.client")

ERROR_PAUSE_S = 3.0
BUSY_PAUSE_S = 0.02
FULL_PAUSE_S = 0.05
PAUSED_S = 1.0
FULL_LOG_EVERY = 1000


class PullLoop:
    """Event loop only. One per consumer, for all its queues."""

    def __init__(
        self,
        session: Session,
        group: str,
        filters: Mapping[str, Filter],
        options: ConsumeOptions,
        offsets: OffsetStore,
        service: ConsumeService,
    ) -> None:
        self._session, self._clock = session, session.clock
        self._group = group
        self._filters = filters
        self._options = options
        self._offsets = offsets
        self._service = service
        self._puller = Puller(session, group)
        self._few = logs.Limited(log, session.clock)  # a broker that is away fails every queue every 3 s
        self.is_paused = False
        self.unreadable = 0  # records that came and that nobody can read

    async def run(self, assigned: AssignedQueue) -> int | None:
        """Pull until the queue is given up: None. An offset: the broker wants the queue to begin anew there."""
        while not assigned.is_over:
            pause_s = self._reason_to_wait(assigned)
            if pause_s == 0:
                try:
                    result = await self._pull(assigned)
                except (Error, ProtocolError) as fault:
                    pause_s = self._pause_after(fault, assigned)
                else:
                    if assigned.is_over:
                        break
                    assigned.pulled_ms = self._clock.now_ms()
                    if result.status is not Pulled.ILLEGAL_OFFSET:
                        pause_s = self._accept(assigned, result)
                    elif not assigned.confirms_offset(result.next_offset):
                        return result.next_offset
            if pause_s > 0:
                await self._clock.sleep(pause_s)
        return None

    def forget(self, assigned: AssignedQueue) -> None:
        self._puller.forget(assigned.queue)

    def _reason_to_wait(self, assigned: AssignedQueue) -> float:
        """Return the seconds for which this queue must not be pulled."""
        if self.is_paused:
            return PAUSED_S
        if self._options.orderly and self._clock.monotonic() >= assigned.locked_until:
            return ERROR_PAUSE_S
        full = assigned.process.full()
        if full is None:
            return 0
        if assigned.process.times_full % FULL_LOG_EVERY == 1:
            log.warning("handlers are behind, pulls wait", group=self._group, queue=str(assigned.queue), held=full)
        return FULL_PAUSE_S

    async def _pull(self, assigned: AssignedQueue) -> PullResult:
        queue, process, options = assigned.queue, assigned.process, self._options
        if assigned.next_offset < 0:
            assigned.next_offset = await start_offset(
                self._session, self._offsets, queue, options.begin, options.begin_ms
            )
        return await self._puller.pull(
            queue,
            assigned.next_offset,
            self._filters[queue.topic],
            most=options.pull_messages,
            hold_s=options.hold_s,
            commit=None if options.broadcast else process.commit_offset(),
            plain_bytes=process.room,
        )

    def _pause_after(self, fault: Error | ProtocolError, assigned: AssignedQueue) -> float:
        self._few.warning("pull failed", group=self._group, queue=str(assigned.queue), fault=str(fault))
        return BUSY_PAUSE_S if getattr(fault, "code", None) == ResponseCode.SYSTEM_BUSY else ERROR_PAUSE_S

    def _accept(self, assigned: AssignedQueue, result: PullResult) -> float:
        """Hand the messages on. Return the seconds to wait before the next pull."""
        if result.unreadable:
            self.unreadable += len(result.unreadable)
            log_unreadable(self._group, assigned.queue, result.unreadable, self._options.unreadable_way)
        assigned.process.add(result.messages)
        assigned.process.skip_to(result.next_offset)
        is_going_on = result.next_offset > assigned.next_offset
        assigned.next_offset = result.next_offset
        if result.messages:
            self._service.offer(assigned)
        return 0 if is_going_on or result.status is Pulled.NONE else BUSY_PAUSE_S
