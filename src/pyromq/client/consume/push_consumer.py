"""Push consumers: take their share of the queues, pull, hand messages to the handler, commit what is done.

Made by `Client.subscribe` and `Client.push_consumer`. How handlers run is in `handling.py`, one pull in `pulling.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import logs
from ...errors import ProtocolError
from ...model import names
from ...model.codes import ResponseCode
from ...model.foreign_text import file_name
from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ...model.message import StoredMessage
from ...protocol.bodies.heartbeat import ConsumerData
from ...protocol.bodies.keyed import MessageQueue
from ..arguments import (
    check_begin,
    check_count,
    check_filter_kind,
    check_length,
    check_retry,
    check_strategy,
    group_fault,
    kind_fault,
    topic_fault,
)
from ..connect.background import Bell, Tasks
from ..connect.lifecycle import Lifecycle
from ..connect.session import Session
from ..core.allocation import Average, Strategy
from ..core.process_queue import FlowLimits, ProcessQueue
from ..core.retry import Retry
from ..errors import Error
from ..middleware import Middleware, around_handling
from ..received import Received
from ..subscription import Filter
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import traced_attempts
from .assigned import AssignedQueue
from .attempts import Attempt, HandlerRunner
from .filter_check import check_at_brokers
from .handlers import Handler, worker
from .handling import ConcurrentService, ConsumeService, OrderlyService
from .locks import RENEW_S, VALID_S, QueueLocks
from .offsets import BrokerOffsets, LocalOffsets, OffsetStore, first_offset
from .pulling import Pulled, Puller, PullResult
from .rebalance import share_of
from .send_back import ConsumerSendBack
from .unreadable import PushWay, before_handlers, check_way, log_unreadable

log = logs.get("pyromq.client")

MOST_PULLED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """How a group consumes. All members of a group should have the same; times are seconds."""

    orderly: bool = False
    broadcast: bool = False
    concurrency: int = 20
    max_batch: int | None = None  # the handler takes lists of up to so many messages of one queue
    timeout_s: float = 15 * 60.0  # of one handler call; then it is cancelled, and the message retried
    retry: Retry | None = None  # None: 16 attempts, orderly without end
    begin: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET  # of a group that was never here
    begin_ms: int | None = None  # with ConsumeFromWhere.TIMESTAMP
    strategy: Strategy = field(default_factory=Average)
    limits: FlowLimits = field(default_factory=FlowLimits)
    pull_messages: int = 32
    hold_s: float = 15.0
    commit_s: float = 5.0
    rebalance_s: float = 20.0
    grace_s: float = 30.0  # for handlers at a stop
    on_unreadable: PushWay | None = None  # records that nobody can read: None is "dead-letter", in broadcast "skip"
    offsets_folder: Path = field(default_factory=lambda: Path.home() / ".rocketmq_offsets")  # broadcast only

    def __post_init__(self) -> None:
        check_begin(self.begin, self.begin_ms)
        if self.orderly and self.broadcast:
            raise Error("orderly and broadcast do not go together", hint="An ordered queue has one reader by its lock")
        if self.on_unreadable is not None:
            check_way(self.on_unreadable, ("skip",) if self.broadcast else ("dead-letter", "skip"))
        check_count("concurrency", self.concurrency)
        check_count("pull_messages", self.pull_messages, MOST_PULLED)
        if self.max_batch is not None:
            check_count("max_batch", self.max_batch, MOST_PULLED)
        check_retry(self.retry)
        check_strategy(self.strategy)
        for name in ("timeout_s", "commit_s", "rebalance_s"):
            check_length(name, getattr(self, name))
        for name in ("hold_s", "grace_s"):
            check_length(name, getattr(self, name), may_be_zero=True)

    @property
    def unreadable_way(self) -> PushWay:
        return self.on_unreadable or ("skip" if self.broadcast else "dead-letter")


ERROR_PAUSE_S = 3.0
BUSY_PAUSE_S = 0.02
FULL_PAUSE_S = 0.05
PAUSED_S = 1.0
ILLEGAL_OFFSET_PAUSE_S = 10.0
INCOMPLETE_PAUSE_S = 1.0  # until the next sharing-out, while a topic or a lock is missing
FULL_LOG_EVERY = 1000


class PushConsumer(Lifecycle):
    """Event loop only. Use it as `async with`, or call `start` and `stop`."""

    def __init__(
        self,
        session: Session,
        group: str,
        wanted: Mapping[str, Filter],
        handler: Handler,
        options: ConsumeOptions | None = None,
        tracer: Tracer | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        if (
            fault := kind_fault("the topic", wanted, Mapping, "a string (or a mapping of topics to filters)")
        ) is not None:
            raise Error(fault)
        for fault in (group_fault(group), *map(topic_fault, wanted)):
            if fault is not None:
                raise Error(fault, hint="Choose another name")
        for each in wanted.values():
            check_filter_kind(each)
        self._session, self._clock, self._namespace = session, session.clock, session.config.namespace
        self._own_group, self.group = group, session.on_wire(group)
        group = self.group
        self.options = options or ConsumeOptions()
        self._wanted = {session.on_wire(topic): each for topic, each in wanted.items()}
        if not self.options.broadcast:
            self._wanted[names.retry_topic(group)] = Filter()
        self._version = self._clock.now_ms()
        self._tasks = Tasks(self._died)
        self._few = logs.Limited(log, self._clock)  # a broker that is away fails every queue every 3 s
        self._puller = Puller(session, group)
        self._locks = QueueLocks(session, group)
        self._offsets: OffsetStore = self._make_offsets()
        self._worker = worker(handler, self.options.concurrency, self.options.max_batch is not None)
        # A thread cannot be cancelled: giving up on it would let the message be handled twice at once.
        timeout_s = None if self._worker.is_blocking else self.options.timeout_s
        self.runner = HandlerRunner(self._worker, self._clock, timeout_s)
        attempt = self.runner if tracer is None else traced_attempts(self.runner, tracer, group)
        attempt = before_handlers(around_handling(attempt, middleware), self.options.unreadable_way)
        self._deliveries = self._make_deliveries(attempt)
        self.unreadable = 0  # records that came and that nobody can read
        self.assigned: dict[MessageQueue, AssignedQueue] = {}
        self._resetting: set[MessageQueue] = set()  # left alone until their new offsets are written
        self._changed = Bell(self._clock)
        self._balancing = asyncio.Lock()
        self._fault: BaseException | None = None
        self._ended = asyncio.Event()
        self.is_paused = False
        self.is_open = False

    def _make_offsets(self) -> OffsetStore:
        if not self.options.broadcast:
            return BrokerOffsets(self._session, self.group)
        own = self.options.offsets_folder / file_name(self._session.lasting_id) / file_name(self.group)
        return LocalOffsets(own / "offsets.json")

    def _make_deliveries(self, attempt: Attempt) -> ConsumeService:
        options = self.options
        retry = options.retry or Retry(times=None if options.orderly else 16)
        giving_back = ConsumerSendBack(self._session, self.group, retry)
        shape: dict[str, Any] = {
            "concurrency": options.concurrency,
            "max_batch": options.max_batch or 1,
            "describe": self.received,
        }
        if options.orderly:
            return OrderlyService(attempt, giving_back.dead, giving_back.most, self._clock, self._tasks, **shape)
        give_back = None if options.broadcast else giving_back
        # Members of a broadcast group each handle everything; others must not handle a message beside each other.
        owner = (self._session.config.name_servers, self.group, self._session.client_id if options.broadcast else "")
        return ConcurrentService(attempt, give_back, retry, self._clock, self._tasks, owner=owner, **shape)

    def received(self, message: StoredMessage, queue: MessageQueue) -> Received:
        return Received(message, queue, self._namespace, self._own_group)

    @property
    def running(self) -> int:
        """Messages that handlers are busy with."""
        return self._deliveries.running

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Registers with the brokers and takes queues; returns after the first sharing-out."""
        self._session.check_open()
        for topic, wanted in self._wanted.items():
            await self._learn(topic)
            await check_at_brokers(self._session, self.group, topic, wanted)
        self._session.add_member(self)
        self.is_open = True
        try:
            await self._join()
        except BaseException:  # a strategy of the user's may raise anything: the group is free again
            await self.stop()
            raise

    async def _join(self) -> None:
        self._deliveries.start()
        await self._session.heartbeat()
        complete = await self.rebalance()
        if not self.is_open:
            return
        self._tasks.start(self._rebalance_loop(complete))
        self._tasks.start(self._commit_loop())
        if self.options.orderly:
            self._tasks.start(self._lock_loop())

    async def _learn(self, topic: str) -> None:
        """The route, before the first heartbeat, which goes to the brokers that are known. It may come later."""
        try:
            await self._session.route(topic)
        except Error as fault:
            if not names.is_retry(topic):  # that one is made by the first heartbeat
                log.warning("no queues to consume yet", group=self.group, fault=str(fault))

    async def stop(self) -> None:
        """Pulls end, handlers that run are finished, what is done is committed, the group is left."""
        if not self.is_open:
            return
        self.is_open = False
        for assigned in self.assigned.values():
            assigned.is_leaving = True
            _cancel(assigned.pulling)
        await self._deliveries.finish(self.options.grace_s)
        self._worker.close()
        await self.commit()
        if self.options.orderly:
            await self._locks.unlock(self.assigned)
        await self._tasks.cancel()
        await self._session.remove_member(self)
        self._ended.set()

    async def wait(self) -> None:
        """Until it was stopped; raises what killed it, if something did."""
        await self._ended.wait()
        if self._fault is not None:
            raise Error(f"consumer of {self.group!r} died: {self._fault!r}") from self._fault

    def _died(self, fault: BaseException) -> None:
        log.error("consumer loop died", group=self.group, fault=repr(fault))
        self._fault = self._fault or fault
        self._ended.set()

    def pause(self) -> None:
        """No further pulls; what was pulled is still handled."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    # --- membership -----------------------------------------------------------------------------------------------

    def describe(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.PASSIVELY,
            message_model=MessageModel.BROADCASTING if self.options.broadcast else MessageModel.CLUSTERING,
            consume_from_where=self.options.begin,
            subscription_data_set=[wanted.describe(topic, self._version) for topic, wanted in self._wanted.items()],
        )

    def facts(self) -> dict[str, str]:
        """For operators (307), under the names that they know from Java."""
        return {
            "PROP_CONSUMEORDERLY": str(self.options.orderly).lower(),
            "PROP_CONSUME_TYPE": ConsumeType.PASSIVELY.value,
            "PROP_NAMESERVER_ADDR": ";".join(self._session.config.name_servers),
            "PROP_THREADPOOL_CORE_SIZE": str(self.options.concurrency),
            "PROP_CLIENT_VERSION": "V5_5_0",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._version),
        }

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def members_changed(self) -> None:
        self._changed.ring()

    async def _rebalance_loop(self, complete: bool) -> None:
        while True:
            if complete:
                await self._changed.wait(self.options.rebalance_s)
            else:
                await self._clock.sleep(INCOMPLETE_PAUSE_S)
            try:
                complete = await self.rebalance()
            except Exception as fault:  # a strategy of the user's, at the id of a member that anybody can choose
                complete = False
                self._few.warning("queues not shared out, they stay as they are", group=self.group, fault=repr(fault))

    async def rebalance(self) -> bool:
        """Take and give up queues. False: something was not known or not granted, try again soon."""
        async with self._balancing:
            complete = True
            for topic in self._wanted:
                share = await share_of(self._session, self.group, topic, self.options.strategy, self.options.broadcast)
                if not self.is_open:
                    return True
                complete &= share is not None and await self._take(topic, share)
            return complete

    async def _take(self, topic: str, share: set[MessageQueue]) -> bool:
        mine = {queue for queue in self.assigned if queue.topic == topic}
        for queue in mine - share:
            await self._give_up(self.assigned[queue])
        new = share - mine - self._resetting
        began = self._clock.monotonic()
        granted = await self._locks.lock(new) if self.options.orderly and new else new
        taken = sorted(granted & new)
        # Before a start returns: what is sent after it is received, also by a group that begins at the end.
        offsets = await asyncio.gather(*map(self._first, taken), return_exceptions=True)
        if not self.is_open:  # stopped while we waited for the locks: nobody would give them back
            await self._locks.unlock(granted if self.options.orderly else ())
            return True
        for queue, offset in zip(taken, offsets, strict=True):
            self._add(queue, offset if isinstance(offset, int) else -1, began + VALID_S)
        return granted >= new

    def _add(self, queue: MessageQueue, offset: int, locked_until: float) -> None:
        """Offset -1: it could not be told, and is asked for again before the first pull, with its error logged."""
        process = ProcessQueue(self.options.limits, self.options.orderly)
        assigned = self.assigned[queue] = AssignedQueue(queue=queue, process=process, next_offset=offset)
        if self.options.orderly:
            assigned.locked_until = locked_until
        assigned.pulling = self._tasks.start(self._pull_loop(assigned))

    async def _give_up(self, assigned: AssignedQueue) -> None:
        """Another member has the queue, or will: commit what is done now; what ends later does not count."""
        assigned.is_leaving = True
        _cancel(assigned.pulling)
        await self._deliveries.left(assigned)
        await self._commit([assigned])
        assigned.process.drop()
        self.assigned.pop(assigned.queue, None)
        self._puller.forget(assigned.queue)
        if self.options.orderly:
            await self._locks.unlock([assigned.queue])

    async def _lock_loop(self) -> None:
        while True:
            await self._clock.sleep(RENEW_S)
            began = self._clock.monotonic()
            granted = await self._locks.lock(tuple(self.assigned))
            for queue, assigned in self.assigned.items():
                if queue in granted:
                    assigned.locked_until = began + VALID_S

    # --- pulling --------------------------------------------------------------------------------------------------

    async def _pull_loop(self, assigned: AssignedQueue) -> None:
        while not assigned.is_over:
            pause_s = self._reason_to_wait(assigned)
            if pause_s == 0:
                pause_s = await self._pull_guarded(assigned)
            if pause_s > 0:
                await self._clock.sleep(pause_s)

    def _reason_to_wait(self, assigned: AssignedQueue) -> float:
        if self.is_paused:
            return PAUSED_S
        if self.options.orderly and self._clock.monotonic() >= assigned.locked_until:
            return ERROR_PAUSE_S
        full = assigned.process.full()
        if full is None:
            return 0
        if assigned.process.times_full % FULL_LOG_EVERY == 1:
            log.warning("handlers are behind, pulls wait", group=self.group, queue=str(assigned.queue), held=full)
        return FULL_PAUSE_S

    async def _pull_guarded(self, assigned: AssignedQueue) -> float:
        """Seconds to wait before the next pull."""
        try:
            return await self._pull(assigned)
        except (Error, ProtocolError) as fault:
            self._few.warning("pull failed", group=self.group, queue=str(assigned.queue), fault=str(fault))
            return BUSY_PAUSE_S if getattr(fault, "code", None) == ResponseCode.SYSTEM_BUSY else ERROR_PAUSE_S

    async def _pull(self, assigned: AssignedQueue) -> float:
        queue = assigned.queue
        if assigned.next_offset < 0:
            assigned.next_offset = await self._first(queue)
        commit = None if self.options.broadcast else assigned.process.commit_offset()
        result = await self._puller.pull(
            queue,
            assigned.next_offset,
            self._wanted[queue.topic],
            most=self.options.pull_messages,
            hold_s=self.options.hold_s,
            commit=commit,
            plain_bytes=assigned.process.room,
        )
        if assigned.is_over:
            return 0
        assigned.pulled_ms = self._clock.now_ms()
        if result.status is Pulled.ILLEGAL_OFFSET:
            if not assigned.is_told_its_own_offset(result.next_offset):
                await self._move(assigned, result)
            return 0
        if result.unreadable:
            self.unreadable += len(result.unreadable)
            log_unreadable(self.group, queue, result.unreadable, self.options.unreadable_way)
        assigned.process.add(result.messages)
        assigned.process.skip_to(result.next_offset)
        is_going_on = result.next_offset > assigned.next_offset
        assigned.next_offset = result.next_offset
        if result.messages:
            self._deliveries.offer(assigned)
        return 0 if is_going_on or result.status is Pulled.NONE else BUSY_PAUSE_S

    async def _first(self, queue: MessageQueue) -> int:
        known = await self._offsets.read(queue)
        if known is not None:
            return known
        return await first_offset(self._session, queue, self.options.begin, self.options.begin_ms)

    async def _move(self, assigned: AssignedQueue, result: PullResult) -> None:
        """The broker has no such offset (expired, or reset): drop what is held, and begin anew at its word."""
        log.warning(
            "offset moved",
            group=self.group,
            queue=str(assigned.queue),
            was=assigned.next_offset,
            now=result.next_offset,
        )
        assigned.process.drop()
        await self._clock.sleep(ILLEGAL_OFFSET_PAUSE_S)
        await self._offsets.save({assigned.queue: result.next_offset})
        self.assigned.pop(assigned.queue, None)
        self._changed.ring()

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator sets the group's offsets (220): drop the queues, wait for late handlers, begin anew."""
        mine = {queue: offset for queue, offset in offsets.items() if queue in self.assigned}
        for queue in mine:
            assigned = self.assigned.pop(queue)
            assigned.process.drop()
            _cancel(assigned.pulling)
        self._resetting |= mine.keys()
        self._tasks.start(self._reset_later(mine))

    async def _reset_later(self, offsets: dict[MessageQueue, int]) -> None:
        await self._clock.sleep(ILLEGAL_OFFSET_PAUSE_S)
        await self._offsets.save(offsets)
        self._resetting -= offsets.keys()
        self._changed.ring()

    # --- offsets --------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """What is done now. Happens by itself every 5 s and at a stop."""
        await self._commit(list(self.assigned.values()))

    async def _commit(self, queues: list[AssignedQueue]) -> None:
        offsets = {each: each.process.commit_offset() for each in queues}
        due = {
            each.queue: offset for each, offset in offsets.items() if offset is not None and offset != each.committed
        }
        saved = await self._offsets.save(due) if due else {}
        for each in queues:
            each.committed = saved.get(each.queue, each.committed)

    async def _commit_loop(self) -> None:
        while True:
            await self._clock.sleep(self.options.commit_s)
            await self.commit()


def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
