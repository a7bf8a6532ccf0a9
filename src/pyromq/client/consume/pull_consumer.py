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
from types import TracebackType
from typing import Any, cast

from ... import logs
from ...model.group import ConsumeType
from ...protocol.bodies.heartbeat import ConsumerData
from ...protocol.bodies.keyed import MessageQueue
from ..arguments import Seconds, check_filter_kind, check_group, check_kind, seconds
from ..connect.background import Bell, Lifecycle, Tasks
from ..connect.session import Session
from ..core.routing import Route
from ..errors import Closed, Error, SubscriptionConflict, TopicNotFound
from ..received import Received
from ..subscription import Filter
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import trace_pulled
from .group_calls import BrokerOffsets, allocated_queues, check_filter, max_offset, min_offset, offset_at
from .options import PullOptions
from .polled_queues import PolledQueue, PolledQueues
from .start_offsets import StartOffsets

log = logs.get("pyromq.client")


class PullConsumer(Lifecycle):
    """The caller polls for messages, of queues that it assigns or of its share of topics. One caller at a time.

    Use it as `async with`, or call `start` and `stop`. Belongs to the event loop that it was started on.
    """

    def __init__(
        self, session: Session, group: str, wanted: Filter, options: PullOptions, tracer: Tracer | None = None
    ) -> None:
        check_group(group)
        check_filter_kind(wanted)
        self._session = session
        self.group = group = session.on_wire(group)
        self._wanted = wanted
        self._options = options
        self._tracer = tracer
        self._offsets = BrokerOffsets(session, group)
        self._starts = StartOffsets(session, self._offsets, options)
        self._queues = PolledQueues(session, group, wanted, options)
        self._tasks = Tasks(lambda fault: log.error("rebalance loop died", group=group, fault=repr(fault)))
        self._version = session.clock.now_ms()
        self._next_commit = 0.0
        self._topics: list[str] = []  # whose queues are shared with the group's other members
        self._checked: set[str] = set()  # topics whose brokers can evaluate the filter
        self._members_changed = Bell(session.clock)
        self._refusal: SubscriptionConflict | None = None
        self.is_open = False

    @property
    def unreadable(self) -> int:
        """The number of records that came and that nobody can read."""
        return self._queues.unreadable

    async def start(self) -> None:
        self._session.check_open()
        self._session.heartbeats.add_member(self.group, self)
        self.is_open = True
        self._next_commit = self._session.clock.monotonic() + self._options.commit_s

    async def stop(self) -> None:
        """Commit what `poll` has returned, since the caller is through with it, and leave the group."""
        if self.is_open:
            self.is_open = False
            await self._tasks.cancel()
            await self._queues.tasks.cancel()
            if self._options.auto_commit:
                self._queues.all_done()
                await self.commit()
            await self._session.heartbeats.remove_member(self.group)

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if fault is not None:
            for polled in self._queues.values():
                polled.returned = polled.done  # the last batch was not dealt with: it comes again
        await self.stop()

    def describe(self) -> ConsumerData:
        """Return this consumer's part of a heartbeat, which names topics that it shares with the group, as Java's does.

        Queues that were assigned are nobody else's affair, and each pull carries the filter.
        """
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.ACTIVELY,
            consume_from_where=self._options.begin,
            subscription_data_set=[self._wanted.describe(topic, self._version) for topic in sorted(self._topics)],
        )

    def note_refusal(self, why: SubscriptionConflict | None) -> None:
        """Give up all queues while a broker refuses this consumer; `poll` raises it until the group agrees."""
        self._refusal = why
        if why is not None and self._queues:
            log.error("refused by the group: it gets no messages until the group agrees", fault=str(why))
        self._members_changed.ring()

    # --- which queues, and where ----------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read. TopicNotFound: once it exists, they begin at the first."""
        return list((await self._route(self._session.on_wire(topic))).readable)

    async def _route(self, topic: str) -> Route:
        try:
            return await self._session.route(topic)
        except TopicNotFound:
            self._starts.expect(topic)
            raise

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Poll these queues and no others. They begin at the group's offset; those of a new group where `begin` says.

        A queue that the topic did not have when this consumer first asked for it begins at its first message.
        """
        self._check_open()
        if self._topics:
            raise Error("this consumer has subscribed: its queues are shared out", hint="Do one or the other")
        wanted = _checked_queues(queues)
        await self._check_filter({queue.topic for queue in wanted})
        await self._move_to(wanted)
        await self._session.heartbeats.send()  # which lets brokers know the group, and so accept its offsets
        await self._starts.commit()

    async def subscribe(self, *topics: str) -> None:
        """Poll a share of the topics' queues; the group's other members get the rest, now and when members change.

        Members that push and members that pull may be in one group. TopicNotFound: what is sent before a later call
        of the same consumer finds the topic is polled too.
        SubscriptionConflict: a broker refuses this consumer, since the group's members subscribe to something else.
        """
        self._check_open()
        if self._topics or self._queues or not topics:
            raise Error("subscribe() takes topics, once, and not after assign()")
        wanted = [self._session.on_wire(topic) for topic in topics]
        for topic in wanted:
            await self._route(topic)
        await self._check_filter(set(wanted))
        self._topics = wanted
        try:
            await self._session.heartbeats.send()
            if self._refusal is not None:
                raise self._refusal
            await self.rebalance()
        except BaseException:  # a strategy of the user's may raise anything
            self._topics = []
            raise
        self._tasks.start(self._rebalance_loop())

    async def _check_filter(self, topics: set[str]) -> None:
        """Ask the brokers of each topic once, before anything is pulled."""
        for topic in sorted(topics - self._checked):
            if self._wanted.sql:
                await self._session.route(topic)
                await check_filter(self._session, self.group, topic, self._wanted)
            self._checked.add(topic)

    def members_changed(self) -> None:
        """Allocate the queues anew, soon."""
        self._members_changed.ring()

    async def _rebalance_loop(self) -> None:
        while True:
            await self._members_changed.wait(self._options.rebalance_s)
            try:
                await self.rebalance()
            except Exception as fault:  # a strategy of the user's, at the id of a member that anybody can choose
                log.warning("queues not shared out, they stay as they are", group=self.group, fault=repr(fault))

    async def rebalance(self) -> None:
        """Allocate the queues of the subscribed topics now."""
        wanted: set[MessageQueue] = set()
        for topic in self._topics if self._refusal is None else ():
            share = await allocated_queues(self._session, self.group, topic, self._options.strategy, False)
            wanted |= {queue for queue in self._queues if queue.topic == topic} if share is None else share
        try:
            await self._move_to(wanted)
            await self._starts.commit()
        except Error as fault:  # a broker is away: what is here stays, the rest comes with the next turn
            self._session.outages.warn("queues not taken", fault, group=self.group)

    async def _move_to(self, wanted: set[MessageQueue]) -> None:
        """Commit what the caller is through with of queues that go; a batch that it still has comes again elsewhere."""
        for queue in self._queues.keys() - wanted:
            polled = self._queues.remove(queue)
            if self._topics and self._options.auto_commit and polled.done != polled.committed:
                await self._offsets.save({queue: polled.done})
        new = sorted(wanted - self._queues.keys())
        starts = await asyncio.gather(*map(self._starts.find, new), return_exceptions=True)
        for queue, start in zip(new, starts, strict=True):
            if isinstance(start, int):
                self._queues.add(queue, start)
        if faults := [each for each in starts if isinstance(each, BaseException)]:
            raise faults[0]

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Let the next `poll` begin at the offset. One beyond the queue's end is refused.

        What is sent below such an offset would be missed.
        """
        self._polled(queue)
        check_kind("the offset", offset, int, "a whole number", hint="Give one from 0 on")
        if offset < 0:
            raise Error(f"offset {offset} of {queue}: at least 0 is needed")
        end = await max_offset(self._session, queue)
        if offset > end:
            hint = "Use seek_to_end to wait for what comes next"
            raise Error(f"offset {offset} of {queue} lies beyond its end, which is {end}", hint=hint)
        self._go_to(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Let the next `poll` begin with the first message that the broker still has."""
        self._polled(queue)
        self._go_to(queue, await min_offset(self._session, queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Let the next `poll` begin with what is sent from now on."""
        self._polled(queue)
        self._go_to(queue, await max_offset(self._session, queue))

    async def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Let the next `poll` begin with the first message stored at that time (ms since 1970) or later."""
        self._polled(queue)
        check_kind("time_ms", time_ms, int, "a whole number", hint="Give milliseconds since 1970")
        self._go_to(queue, await offset_at(self._session, queue, time_ms))

    def _go_to(self, queue: MessageQueue, offset: int) -> None:
        """Move the position. Error if the queue has gone to another member meanwhile."""
        polled = self._polled(queue)
        self._queues.drop_pull(polled)
        polled.position = polled.returned = polled.done = offset

    def pause(self, *queues: MessageQueue) -> None:
        """Return no messages of these queues until `resume`."""
        for queue in queues:
            self._queues.drop_pull(self._polled(queue))
            self._queues.paused.add(queue)

    def resume(self, *queues: MessageQueue) -> None:
        self._queues.paused.difference_update(queues)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset behind the last message that `poll` returned."""
        return self._polled(queue).returned

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's offset as the broker has it; None if it has none."""
        return await self._offsets.read(queue)

    async def commit(self) -> None:
        """Commit what was polled; with auto_commit without the last batch, which the caller may still be busy with."""
        is_auto = self._options.auto_commit
        ends = {each.queue: each.done if is_auto else each.returned for each in self._queues.values()}
        due = {queue: offset for queue, offset in ends.items() if offset != self._queues[queue].committed}
        for queue, offset in (await self._offsets.save(due)).items():
            if queue in self._queues:
                self._queues[queue].committed = offset

    # --- messages -------------------------------------------------------------------------------------------------

    async def poll(self, timeout: Seconds = 5.0) -> list[Received]:  # noqa: ASYNC109 - running out is no error here
        """Return the next messages of one queue; an empty list if none came in time. What was returned before is done.

        A timeout of 0 returns what the brokers have now: they are asked, and nobody waits for what may come.
        Unreadable (unless on_unreadable="skip"): the next record of a queue cannot be read. Messages before it were
        returned, and it is raised again until the caller seeks elsewhere. SubscriptionConflict: a broker refuses this
        consumer since what the group's members subscribe to has changed; it is asked again every second.
        """
        self._check_open()
        if self._refusal is not None:
            raise self._refusal
        self._queues.all_done()
        if self._queues.unread:  # a loop over this consumer ended in the middle of a batch
            unread, self._queues.unread = self._queues.unread[::-1], []
            self._queues[unread[0].queue].returned = unread[-1].offset + 1
            return unread
        clock = self._session.clock
        if self._options.auto_commit and clock.monotonic() >= self._next_commit:
            self._next_commit = clock.monotonic() + self._options.commit_s
            await self.commit()
        limit_s = seconds(timeout)
        try:
            async with clock.timeout(limit_s if limit_s > 0 else self._session.config.call_timeout_s):
                found = await self._next(may_wait=limit_s > 0)
        except TimeoutError:
            return []
        if self._tracer is not None:
            trace_pulled(self._tracer, found, self.group)
        return found

    async def _next(self, *, may_wait: bool) -> list[Received]:
        found: list[Received] = []
        while not found:
            if not self._topics and self._queues.keys() <= self._queues.paused:
                raise Error("no queue is assigned, or all are paused", hint="Call assign(...) or resume(...) first")
            if not may_wait:
                return await self._queues.available()
            found = await self._queues.next()
        return found

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Yield one message after another, without end. Asking for the next one says that this one is done."""
        queues = self._queues
        while True:
            batch = await self.poll()
            if not batch:
                continue
            queue = batch[0].queue
            end = queues[queue].returned
            queues.unread = batch[::-1]  # from the end is where a list gives up its items cheaply
            while queues.unread:
                msg = queues.unread.pop()
                polled = queues.get(queue)
                if polled is not None:  # what is not read yet was not returned yet
                    polled.returned = msg.offset + 1 if queues.unread else end
                yield msg
                if polled is not None:
                    polled.done = polled.returned

    def _polled(self, queue: MessageQueue) -> PolledQueue:
        self._check_open()
        try:
            return self._queues[queue]
        except KeyError:
            raise Error(f"{queue} is not assigned", hint="Call assign(...) with it first") from None

    def _check_open(self) -> None:
        if not self.is_open:
            raise Closed("this consumer is not started, or stopped", hint="Use it inside its `async with` block")


def _checked_queues(queues: object) -> set[MessageQueue]:
    if isinstance(queues, str):
        hint = f"Write assign(await consumer.queues({queues!r})), or subscribe({queues!r})"
        raise Error(f"assign takes queues, and not the topic {queues!r}", hint=hint)
    hint = "Write assign(await consumer.queues(topic))"
    check_kind("what to assign", queues, Iterable, "a list of queues", hint=hint)
    found = list(cast(Iterable[Any], queues))
    for each in found:
        check_kind("what to assign", each, MessageQueue, "a queue", hint=hint)
    return set(found)
