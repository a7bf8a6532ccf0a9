"""The queues that a push consumer has now: allocated with the group's other members, locked where it is orderly.

Started and stopped by `push_consumer.py`. Each assigned queue has a pull loop (`pull_loop.py`); what is done is
committed here. A queue that another member gets is given up only after its offset was committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf

from ... import logs
from ...model import names
from ...model.pop_names import is_pop_retry
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Bell, Tasks
from ..core.process_queue import ProcessQueue
from .consume_service import AssignedQueue
from .group_calls import LOCK_KEPT_S, LOCK_RENEW_S, LOCK_VALID_S, QueueLocks, allocated_queues
from .pull_loop import PullLoop

log = logs.get("pyromq.client")

ILLEGAL_OFFSET_PAUSE_S = 10.0
LOCK_PATIENCE_S = 3.0  # a running member gives up its locks sooner, unless its handlers are slow
INCOMPLETE_PAUSE_S = 1.0  # until the next allocation, while a topic or a lock is missing


class Assignment:
    """Event loop only."""

    def __init__(self, pulls: PullLoop, tasks: Tasks) -> None:
        session = pulls.session
        self._pulls, self._tasks = pulls, tasks
        self._session, self._clock, self._group = session, session.clock, pulls.group
        self._options, self._offsets, self._service = pulls.options, pulls.offsets, pulls.service
        self._locks = QueueLocks(session, pulls.group)
        self._few = logs.Limited(log, session.clock)
        self._lock_waits: dict[MessageQueue, float] = {}  # locks that others have, since when; inf: that was logged
        self._resetting: set[MessageQueue] = set()  # left alone until their new offsets are written
        self._balancing = asyncio.Lock()
        self._is_closed = False
        self.is_refused = False  # by a broker, since the group subscribes to something else: no queue is ours
        self.is_undecided = False  # no broker could say yet whether to consume in order: none is ours either
        self.queues: dict[MessageQueue, AssignedQueue] = {}
        self.changed = Bell(session.clock)  # the group's members, or what they may have

    async def start(self, *, is_running: bool = False) -> None:
        """Take the first share of the queues, then keep it up to date.

        What a strategy of the user's raises goes to the caller; in a consumer that runs already it is tried again.
        """
        complete = await (self._try_rebalance() if is_running else self.rebalance())
        if self._is_closed:
            return
        self._tasks.start(self._rebalance_loop(complete))
        self._tasks.start(self._commit_loop())
        if self._options.orderly:
            self._tasks.start(self._lock_loop())

    async def _rebalance_loop(self, complete: bool) -> None:
        while True:
            if complete:
                await self.changed.wait(self._options.rebalance_s)
            else:
                await self._clock.sleep(INCOMPLETE_PAUSE_S)
            complete = await self._try_rebalance()

    async def _try_rebalance(self) -> bool:
        try:
            return await self.rebalance()
        except Exception as fault:  # a strategy of the user's, at the id of a member that anybody can choose
            self._few.warning("queues not shared out, they stay as they are", group=self._group, fault=repr(fault))
            return False

    async def rebalance(self) -> bool:
        """Take and give up queues. False: something was not known or not granted, try again soon."""
        strategy, is_broadcast = self._options.strategy, self._options.broadcast
        async with self._balancing:
            complete = True
            for topic in self._pulls.filters:
                share = await allocated_queues(self._session, self._group, topic, strategy, is_broadcast)
                if self._is_closed:
                    return True
                if share is None and is_pop_retry(topic, self._group):
                    continue  # it is made with the first message that comes again
                share = set() if self.is_refused or self.is_undecided else share
                complete &= share is not None and await self._move_to(topic, share)
            return complete

    async def _move_to(self, topic: str, share: set[MessageQueue]) -> bool:
        mine = {queue for queue in self.queues if queue.topic == topic}
        for queue in mine - share:
            await self._give_up(self.queues[queue])
        new = share - mine - self._resetting
        began = self._clock.monotonic()
        granted, denied = await self._locks.lock(new) if self._options.orderly and new else (new, set())
        self._note_waits(topic, denied, began)
        added = sorted(granted & new)
        # Before a start returns: what is sent after it is received, also by a group that begins at the end.
        offsets = await asyncio.gather(*map(self._pulls.starts.find, added), return_exceptions=True)
        await self._pulls.starts.commit()
        if self._is_closed:  # stopped while we waited for the locks: nobody would release them
            await self._locks.unlock(granted if self._options.orderly else ())
            return True
        for queue, offset in zip(added, offsets, strict=True):
            self._add(queue, offset if isinstance(offset, int) else -1, began + LOCK_VALID_S)
        return granted >= new

    def _note_waits(self, topic: str, denied: set[MessageQueue], now: float) -> None:
        """Log, once for each wait, which queues wait for longer than a running member needs to give up its locks.

        Not those of retries: whoever has the locks of the topic has theirs, and an orderly group uses none.
        """
        if names.is_retry(topic):
            return
        others = {queue: since for queue, since in self._lock_waits.items() if queue.topic != topic}
        self._lock_waits = others | {queue: self._lock_waits.get(queue, now) for queue in denied}
        late = sorted(queue for queue in denied if now - self._lock_waits[queue] >= LOCK_PATIENCE_S)
        if late:
            self._lock_waits |= dict.fromkeys(late, inf)
            log.warning(
                "ordered queues wait for the locks of another client. It gives them up when its handlers have ended; "
                f"if it was killed, the broker frees them after {LOCK_KEPT_S:g} s",
                group=self._group,
                topic=topic,
                queues=", ".join(f"{queue.queue_id} of {queue.broker_name}" for queue in late),
            )

    def _add(self, queue: MessageQueue, offset: int, locked_until: float) -> None:
        """Begin to pull a queue. Offset -1: it could not be read, and is read again before the first pull."""
        process = ProcessQueue(self._options.limits, bool(self._options.orderly))
        assigned = self.queues[queue] = AssignedQueue(queue=queue, process=process, next_offset=offset)
        if self._options.orderly:
            assigned.locked_until = locked_until
        assigned.pulling = self._tasks.start(self._pull(assigned))

    async def _give_up(self, assigned: AssignedQueue) -> None:
        """Commit what is done now: another member has the queue, or will, and what ends later does not count."""
        assigned.leave()
        await self._service.left(assigned)
        await self.commit([assigned])
        assigned.process.drop()
        self.queues.pop(assigned.queue, None)
        self._pulls.puller.forget(assigned.queue)
        if self._options.orderly:
            await self._locks.unlock([assigned.queue])

    async def _lock_loop(self) -> None:
        while True:
            await self._clock.sleep(LOCK_RENEW_S)
            began = self._clock.monotonic()
            granted, _ = await self._locks.lock(tuple(self.queues))
            for queue, assigned in self.queues.items():
                if queue in granted:
                    assigned.locked_until = began + LOCK_VALID_S

    def close(self) -> None:
        """End all pulls. Handlers may go on; `release` comes after them."""
        self._is_closed = True
        for assigned in self.queues.values():
            assigned.leave()

    async def release(self) -> None:
        await self.commit()
        if self._options.orderly:
            await self._locks.unlock(self.queues)

    async def commit(self, queues: Sequence[AssignedQueue] | None = None) -> None:
        """Commit what is done of these queues, else of all."""
        queues = tuple(self.queues.values()) if queues is None else queues
        offsets = {each: each.process.commit_offset() for each in queues}
        due = {
            each.queue: offset for each, offset in offsets.items() if offset is not None and offset != each.committed
        }
        saved = await self._offsets.save(due) if due else {}
        for each in queues:
            each.committed = saved.get(each.queue, each.committed)

    async def _commit_loop(self) -> None:
        while True:
            await self._clock.sleep(self._options.commit_s)
            await self.commit()

    async def _pull(self, assigned: AssignedQueue) -> None:
        """Pull the queue. Where its broker has no such offset (expired, or reset), drop what is here and begin anew."""
        moved_to = await self._pulls.run(assigned)
        if moved_to is not None:
            was = assigned.next_offset
            log.warning("offset moved", group=self._group, queue=str(assigned.queue), was=was, now=moved_to)
            assigned.process.drop()
            await self._save_and_wait({assigned.queue: moved_to})
            self.queues.pop(assigned.queue, None)
            self.changed.ring()

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Drop these queues: an operator sets the group's offsets. They begin anew once late handlers have ended."""
        mine = {queue: offset for queue, offset in offsets.items() if queue in self.queues}
        for queue in mine:
            assigned = self.queues.pop(queue)
            assigned.process.drop()
            assigned.leave()
        self._resetting |= mine.keys()
        self._tasks.start(self._finish_reset(mine))

    async def _finish_reset(self, offsets: dict[MessageQueue, int]) -> None:
        await self._save_and_wait(offsets)
        self._resetting -= offsets.keys()
        self.changed.ring()

    async def _save_and_wait(self, offsets: dict[MessageQueue, int]) -> None:
        """Save the new offsets at once, so that they count if this process ends now. Then let late handlers end."""
        saved = await self._offsets.save(offsets)
        await self._clock.sleep(ILLEGAL_OFFSET_PAUSE_S)
        await self._offsets.save({queue: offset for queue, offset in offsets.items() if queue not in saved})
