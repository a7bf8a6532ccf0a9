"""Pull consumers: the caller says which queues, from which offset, and when to go on. For jobs, tools and replays.

    async with client.pull_consumer("etl") as consumer:
        await consumer.assign(await consumer.queues("orders"))
        while batch := await consumer.poll(timeout=5):
            ...

Calling `poll` again says that what it returned before is done: that is what gets committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from ... import logs
from ...errors import ProtocolError
from ...model.group import ConsumeType
from ...model.message import StoredMessage
from ...protocol.bodies.heartbeat import ConsumerData
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.messages import UnreadableMessage
from ..arguments import Seconds, check_filter_kind, group_fault, kind_fault, seconds
from ..connect.background import Bell, Tasks
from ..connect.lifecycle import Lifecycle
from ..connect.session import Session
from ..errors import Closed, Error
from ..received import Received
from ..subscription import Filter
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import trace_pulled
from .filter_check import check_at_brokers
from .offsets import BrokerOffsets, at_time, highest, lowest, start_offset
from .options import PullOptions
from .pulling import Pulled, Puller, PullResult
from .rebalance import share_of
from .unreadable import log_unreadable, unreadable_error

log = logs.get("pyromq.client")

ERROR_PAUSE_S = 1.0


@dataclass(slots=True, eq=False)
class _PolledQueue:
    """One assigned queue. `position` is the next offset to pull, `returned` one past what `poll` gave out."""

    queue: MessageQueue
    position: int
    returned: int
    done: int  # one past what the caller is through with
    committed: int = -1
    pull: asyncio.Task[PullResult | None] | None = None


class PullConsumer(Lifecycle):
    """Event loop only, one caller of `poll` at a time."""

    def __init__(
        self, session: Session, group: str, wanted: Filter, options: PullOptions, tracer: Tracer | None = None
    ) -> None:
        if (fault := group_fault(group)) is not None:
            raise Error(fault, hint="Choose another name")
        check_filter_kind(wanted)
        self._session = session
        self.group = group = session.on_wire(group)
        self._wanted = wanted
        self._options = options
        self._tracer = tracer
        self._puller = Puller(session, group)
        self._offsets = BrokerOffsets(session, group)
        self._queues: dict[MessageQueue, _PolledQueue] = {}
        self._tasks = Tasks(lambda fault: log.error("pull died", group=group, fault=repr(fault)))
        self._version = session.clock.now_ms()
        self._next_commit = 0.0
        self._paused: set[MessageQueue] = set()
        self._rest: list[Received] = []  # of a batch, all of one queue, the next at the end
        self._topics: list[str] = []  # whose queues are shared with the group's other members
        self._checked: set[str] = set()  # topics whose brokers can evaluate the filter
        self._changed = Bell(session.clock)
        self._moved = asyncio.Event()  # queues came or went: whoever polls looks again
        self._is_open = False
        self.unreadable = 0  # records that came and that nobody can read

    async def start(self) -> None:
        self._session.check_open()
        self._session.add_member(self)
        self._is_open = True
        self._next_commit = self._session.clock.monotonic() + self._options.commit_s

    async def stop(self) -> None:
        """Commits what `poll` has returned, since the caller is through with it."""
        if self._is_open:
            self._is_open = False
            await self._tasks.cancel()
            if self._options.auto_commit:
                self._all_done()
                await self.commit()
            await self._session.remove_member(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if fault is not None:
            for polled in self._queues.values():
                polled.returned = polled.done  # the last batch was not dealt with: it comes again
        await self.stop()

    def describe(self) -> ConsumerData:
        topics = sorted({queue.topic for queue in self._queues} | set(self._topics))
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.ACTIVELY,
            consume_from_where=self._options.begin,
            subscription_data_set=[self._wanted.describe(topic, self._version) for topic in topics],
        )

    # --- which queues, and where ----------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        return list((await self._session.route(self._session.on_wire(topic))).readable)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """These and no others. New ones begin at the group's offset, or where the options say."""
        self._check_open()
        if self._topics:
            raise Error("this consumer has subscribed: its queues are shared out", hint="Do one or the other")
        wanted = _queues_of(queues)
        await self._check_filter({queue.topic for queue in wanted})
        await self._move_to(wanted)
        await self._session.heartbeat()

    async def subscribe(self, *topics: str) -> None:
        """A share of the topics' queues, the others going to the group's other members; now, and when they change.

        Members that push and members that pull may be in one group.
        """
        self._check_open()
        if self._topics or self._queues or not topics:
            raise Error("subscribe() takes topics, once, and not after assign()")
        wanted = [self._session.on_wire(topic) for topic in topics]
        for topic in wanted:
            await self._session.route(topic)
        await self._check_filter(set(wanted))
        self._topics = wanted
        try:
            await self._session.heartbeat()
            await self.rebalance()
        except BaseException:  # a strategy of the user's may raise anything
            self._topics = []
            raise
        self._tasks.start(self._rebalance_loop())

    async def _check_filter(self, topics: set[str]) -> None:
        """Of each topic once, before anything is pulled."""
        for topic in sorted(topics - self._checked):
            if self._wanted.sql:
                await self._session.route(topic)
                await check_at_brokers(self._session, self.group, topic, self._wanted)
            self._checked.add(topic)

    def members_changed(self) -> None:
        self._changed.ring()

    async def _rebalance_loop(self) -> None:
        while True:
            await self._changed.wait(self._options.rebalance_s)
            try:
                await self.rebalance()
            except Exception as fault:  # a strategy of the user's, at the id of a member that anybody can choose
                log.warning("queues not shared out, they stay as they are", group=self.group, fault=repr(fault))

    async def rebalance(self) -> None:
        wanted: set[MessageQueue] = set()
        for topic in self._topics:
            share = await share_of(self._session, self.group, topic, self._options.strategy, False)
            wanted |= {queue for queue in self._queues if queue.topic == topic} if share is None else share
        try:
            await self._move_to(wanted)
        except Error as fault:  # a broker is away: what is here stays, the rest comes with the next turn
            log.warning("queues not taken", group=self.group, fault=str(fault))

    async def _move_to(self, wanted: set[MessageQueue]) -> None:
        """Where a queue goes, what the caller is through with is committed; a batch in its hands comes again there."""
        for queue in self._queues.keys() - wanted:
            polled = self._queues.pop(queue)
            self._drop_pull(polled)
            self._moved.set()
            if self._topics and self._options.auto_commit and polled.done != polled.committed:
                await self._offsets.save({queue: polled.done})
        for queue in sorted(wanted - self._queues.keys()):
            position = await start_offset(
                self._session, self._offsets, queue, self._options.begin, self._options.begin_ms
            )
            self._queues[queue] = _PolledQueue(queue, position, position, position)
            self._moved.set()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next `poll` begins there. The broker is asked for the end: what is sent below an offset beyond it would
        never be given to the group."""
        self._polled(queue)
        if (fault := kind_fault("the offset", offset, int, "a whole number")) is not None:
            raise Error(fault, hint="Give one from 0 on")
        if offset < 0:
            raise Error(f"offset {offset} of {queue}: at least 0 is needed")
        end = await highest(self._session, queue)
        if offset > end:
            raise Error(
                f"offset {offset} of {queue} lies beyond its end, which is {end}",
                hint="Use seek_to_end to wait for what comes next",
            )
        self._go_to(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        self._polled(queue)
        self._go_to(queue, await lowest(self._session, queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        self._polled(queue)
        self._go_to(queue, await highest(self._session, queue))

    async def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """The first message stored at that time (ms since 1970) or later."""
        self._polled(queue)
        if (fault := kind_fault("time_ms", time_ms, int, "a whole number")) is not None:
            raise Error(fault, hint="Give milliseconds since 1970")
        self._go_to(queue, await at_time(self._session, queue, time_ms))

    def _go_to(self, queue: MessageQueue, offset: int) -> None:
        """The polled is looked up anew: it may have gone to another member meanwhile, which is said."""
        polled = self._polled(queue)
        self._drop_pull(polled)
        polled.position = polled.returned = polled.done = offset

    def pause(self, *queues: MessageQueue) -> None:
        for queue in queues:
            self._drop_pull(self._polled(queue))
            self._paused.add(queue)

    def resume(self, *queues: MessageQueue) -> None:
        self._paused.difference_update(queues)

    def position(self, queue: MessageQueue) -> int:
        """The offset behind the last message that `poll` returned."""
        return self._polled(queue).returned

    async def committed(self, queue: MessageQueue) -> int | None:
        return await self._offsets.read(queue)

    async def commit(self) -> None:
        """What the caller is through with: everything but the batch of the last `poll`, unless auto_commit is off."""
        due = {
            polled.queue: polled.done if self._options.auto_commit else polled.returned
            for polled in self._queues.values()
        }
        due = {queue: offset for queue, offset in due.items() if offset != self._queues[queue].committed}
        for queue, offset in (await self._offsets.save(due)).items():
            if queue in self._queues:
                self._queues[queue].committed = offset

    # --- messages -------------------------------------------------------------------------------------------------

    async def poll(self, timeout: Seconds = 5.0) -> list[Received]:  # noqa: ASYNC109 - running out is no error here
        """The next messages of one queue; an empty list if none came in time.

        Unreadable (unless on_unreadable="skip"): the next record of a queue cannot be read. Messages before it were
        returned, and it is raised again until the caller seeks elsewhere.
        """
        self._check_open()
        self._all_done()
        if self._rest:  # a loop over this consumer ended in the middle of a batch
            rest, self._rest = self._rest[::-1], []
            self._queues[rest[0].queue].returned = rest[-1].offset + 1
            return rest
        clock = self._session.clock
        if self._options.auto_commit and clock.monotonic() >= self._next_commit:
            self._next_commit = clock.monotonic() + self._options.commit_s
            await self.commit()
        try:
            async with clock.timeout(seconds(timeout)):
                while True:
                    if found := await self._next():
                        break
        except TimeoutError:
            return []
        if self._tracer is not None:
            trace_pulled(self._tracer, found, self.group)
        return found

    async def __aiter__(self) -> AsyncIterator[Received]:
        """One message after another, without end. Asking for the next one says that this one is dealt with."""
        while True:
            batch = await self.poll()
            if not batch:
                continue
            queue = batch[0].queue
            end = self._queues[queue].returned
            self._rest = batch[::-1]  # from the end is where a list gives up its items cheaply
            while self._rest:
                msg = self._rest.pop()
                polled = self._queues.get(queue)
                if polled is not None:  # what is not read yet was not returned yet
                    polled.returned = msg.offset + 1 if self._rest else end
                yield msg
                if polled is not None:
                    polled.done = polled.returned

    async def _next(self) -> list[Received]:
        """One pull per queue is under way; the first that ends is taken, its queue goes to the end of the row."""
        active = [polled for polled in self._queues.values() if polled.queue not in self._paused]
        if not active and not self._topics:
            raise Error("no queue is assigned, or all are paused", hint="Call assign(...) or resume(...) first")
        self._moved.clear()
        for polled in active:
            if polled.pull is None:
                polled.pull = self._tasks.start(self._pull(polled))
        pulls = {polled.pull: polled for polled in active if polled.pull is not None}
        moved = asyncio.ensure_future(self._moved.wait())
        try:
            await asyncio.wait((moved, *pulls), return_when=asyncio.FIRST_COMPLETED)
        finally:
            moved.cancel()
        for pull, polled in pulls.items():
            if pull.done() and self._queues.get(polled.queue) is polled and polled.pull is pull:
                polled.pull = None
                self._queues[polled.queue] = self._queues.pop(polled.queue)
                return self._take(polled, pull.result())
        return []

    def _take(self, polled: _PolledQueue, result: PullResult | None) -> list[Received]:
        if result is None:
            return []
        if result.status is Pulled.ILLEGAL_OFFSET:
            log.warning("offset moved", queue=str(polled.queue), was=polled.position, now=result.next_offset)
        messages, next_offset = result.messages, result.next_offset
        if result.unreadable:
            messages, next_offset = self._readable(polled.queue, result)
        polled.position = polled.returned = next_offset
        if not messages:
            polled.done = polled.returned
        return [Received(message, polled.queue, self._session.config.namespace, self.group) for message in messages]

    def _readable(self, queue: MessageQueue, result: PullResult) -> tuple[list[StoredMessage], int]:
        """What the caller gets of a pull with unreadable records, and where the next one begins."""
        if self._options.on_unreadable == "skip":
            self.unreadable += len(result.unreadable)
            log_unreadable(self.group, queue, result.unreadable, "skip")
            return [each for each in result.messages if not isinstance(each, UnreadableMessage)], result.next_offset
        first = result.unreadable[0]
        before = result.messages[: result.messages.index(first)]
        if not before:
            self.unreadable += 1
            raise unreadable_error(queue, first, result.next_offset)
        return before, first.queue_offset

    async def _pull(self, polled: _PolledQueue) -> PullResult | None:
        """None: it failed, and a pause has passed; the next `poll` tries again."""
        try:
            return await self._puller.pull(
                polled.queue,
                polled.position,
                self._wanted,
                most=self._options.pull_messages,
                hold_s=self._options.hold_s,
                plain_bytes=self._options.plain_bytes,
            )
        except (Error, ProtocolError) as fault:
            log.warning("pull failed", group=self.group, queue=str(polled.queue), fault=str(fault))
            await self._session.clock.sleep(ERROR_PAUSE_S)
            return None

    def _all_done(self) -> None:
        for polled in self._queues.values():
            polled.done = polled.returned

    def _polled(self, queue: MessageQueue) -> _PolledQueue:
        self._check_open()
        try:
            return self._queues[queue]
        except KeyError:
            raise Error(f"{queue} is not assigned", hint="Call assign(...) with it first") from None

    def _drop_pull(self, polled: _PolledQueue) -> None:
        self._rest = [msg for msg in self._rest if msg.queue != polled.queue]
        if polled.pull is not None:
            polled.pull.cancel()
            polled.pull = None

    def _check_open(self) -> None:
        if not self._is_open:
            raise Closed("this consumer is not started, or stopped", hint="Use it inside its `async with` block")


def _queues_of(queues: object) -> set[MessageQueue]:
    if isinstance(queues, str):
        raise Error(
            f"assign takes queues, and not the topic {queues!r}",
            hint=f"Write assign(await consumer.queues({queues!r})), or subscribe({queues!r})",
        )
    if (fault := kind_fault("what to assign", queues, Iterable, "a list of queues")) is not None:
        raise Error(fault, hint="Write assign(await consumer.queues(topic))")
    found = list(cast(Iterable[Any], queues))
    for each in found:
        if (fault := kind_fault("what to assign", each, MessageQueue, "a queue")) is not None:
            raise Error(fault, hint="Write assign(await consumer.queues(topic))")
    return set(found)
