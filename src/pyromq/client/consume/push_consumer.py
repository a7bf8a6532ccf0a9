"""Push consumers: messages come to a handler. Made by `Client.subscribe` and `Client.push_consumer`.

Puts the parts together: which queues (`assignment.py`), pulling them (`pull_loop.py`), calling the handler
(`concurrent_service.py`, `orderly_service.py`), offsets (`group_calls.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ... import logs
from ...model import names
from ...model.foreign_text import file_name
from ...model.group import ConsumeType, MessageModel, MessageRequestMode
from ...model.message import StoredMessage
from ...model.pop_names import retry_topic_v1, retry_topic_v2
from ...protocol.bodies.heartbeat import ConsumerData
from ...protocol.bodies.keyed import MessageQueue
from ..arguments import check_filter_kind, check_group, check_kind, check_topic
from ..connect.background import Lifecycle, Tasks
from ..connect.session import Session
from ..errors import Error, SubscriptionConflict, TopicNotFound
from ..handle.attempts import HandlerRunner, before_handlers
from ..handle.failures import Failures
from ..handle.handlers import Handler, value_type, worker
from ..middleware import Middleware, around_handling
from ..pop.pop_assignment import PopAssignment, ask_mode
from ..pop.pop_parts import make_pop_parts
from ..pop.pop_service import PopService
from ..received import Received
from ..subscription import Filter
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import traced_attempts
from ..values import check_type, choose_codec
from .assignment import INCOMPLETE_PAUSE_S, Assignment
from .concurrent_service import ConcurrentService
from .consume_service import AssignedQueue, ConsumeService
from .group_calls import BrokerOffsets, LocalOffsets, OffsetStore, check_filter
from .group_order import GroupOrder
from .options import ConsumeOptions
from .orderly_service import OrderlyService
from .pull_loop import PullLoop
from .send_back import ConsumerSendBack
from .start_offsets import StartOffsets

log = logs.get("pyromq.client")


class PushConsumer(Lifecycle):
    """Messages of its topics come to the handler. Use it as `async with`, or call `start` and `stop`.

    Belongs to the event loop that it was started on.
    """

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
        check_kind("the topic", wanted, Mapping, "a string (or a mapping of topics to filters)")
        check_group(group)
        if not wanted:
            raise Error("a consumer of no topic", hint="Name one or more")
        for topic, each in wanted.items():
            check_topic(topic)
            check_filter_kind(each)
        self._session, self.clock, self._namespace = session, session.clock, session.config.namespace
        self._own_group, self.group = group, session.on_wire(group)
        group = self.group
        options = options or ConsumeOptions()
        self._filters = {session.on_wire(topic): each for topic, each in wanted.items()}
        if not options.broadcast:
            self._filters[names.retry_topic(group)] = Filter()
        self._version = self.clock.now_ms()
        self._tasks = Tasks(self._died)
        self._codec = choose_codec(options.codec, session.config.codec)
        self._worker = worker(handler, options.concurrency, options.max_batch is not None)
        check_type(self._codec, value_type(handler, options.max_batch is not None), self._worker.name)
        self.runner = HandlerRunner(self._worker, self.clock, options.timeout_s, options.slow_s)
        attempt = self.runner if tracer is None else traced_attempts(self.runner, tracer, group)
        self._attempt = before_handlers(around_handling(attempt, middleware), options.unreadable_way)
        self.failures = Failures(group, self.clock, options.undecodable_way)
        self._offsets = self._make_offsets(options)
        self._starts = StartOffsets(session, self._offsets, options)
        self._order = GroupOrder(session, group, self._filters)
        self._is_told_to_pop = options.mode == "pop"  # by the options, or by brokers
        self._consume_by(options)
        self._fault: BaseException | None = None
        self._refusal: SubscriptionConflict | None = None
        self._is_running = False
        self._ended = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self.is_open = False

    def _consume_by(self, options: ConsumeOptions) -> None:
        """Make the parts that consume. They are made anew if the group turns out to be orderly, or to pop."""
        self.options = options
        # A thread cannot be cancelled: in an ordered queue the message would be handled twice at once.
        self.runner.timeout_s = None if self._worker.is_blocking and options.orderly else options.timeout_s
        self._service: ConsumeService | PopService
        self._pulls: PullLoop | PopAssignment
        self._assignment: Assignment | PopAssignment
        if self._is_told_to_pop:
            groups, how = (self.group, self._own_group), (self._attempt, self.failures, self._codec, self._tasks)
            pops = make_pop_parts(self._session, groups, self._filters, options, *how)
            self._service, self._pulls, self._assignment = pops.service, pops, pops
            return
        service = self._service = self._make_service()
        kept = self._offsets, self._starts
        filters = self._filters | self._popped_again(options)
        pulls = self._pulls = PullLoop(self._session, self.group, filters, options, *kept, service)
        self._assignment = Assignment(pulls, self._tasks)

    def _popped_again(self, options: ConsumeOptions) -> dict[str, Filter]:
        """Return where messages come again that the group popped: it reads them too, while its brokers let it pull."""
        if options.mode != "server":
            return {}
        topics = [topic for topic in self._filters if not names.is_retry(topic)]
        return {form(topic, self.group): Filter() for topic in topics for form in (retry_topic_v1, retry_topic_v2)}

    def _make_offsets(self, options: ConsumeOptions) -> OffsetStore:
        if not options.broadcast:
            return BrokerOffsets(self._session, self.group)
        own = options.offsets_folder / file_name(self._session.lasting_id) / file_name(self.group)
        return LocalOffsets(own / "offsets.json")

    def _make_service(self) -> ConsumeService:
        options = self.options
        send_back = ConsumerSendBack(self._session, self.group, options.retry_rule)
        calls: dict[str, Any] = {
            "attempt": self._attempt,
            "describe": self.received,
            "failures": self.failures,
            "concurrency": options.concurrency,
            "max_batch": options.max_batch or 1,
            "clock": self.clock,
            "tasks": self._tasks,
        }
        if options.orderly:
            return OrderlyService(**calls, send_back=send_back)
        # Members of a broadcast group each handle everything; others must not handle a message beside each other.
        owner = (self._session.config.name_servers, self.group, self._session.client_id if options.broadcast else "")
        return ConcurrentService(**calls, send_back=None if options.broadcast else send_back, owner=owner)

    def received(self, message: StoredMessage, queue: MessageQueue) -> Received:
        ends = self._pulls.puller.ends if isinstance(self._pulls, PullLoop) else {}
        return Received(message, queue, self._namespace, self._own_group, self._codec, ends)

    @property
    def running(self) -> int:
        """The number of messages that handlers are busy with."""
        return self._service.running

    @property
    def unreadable(self) -> int:
        """The number of records that came and that nobody can read."""
        return self._pulls.unreadable

    @property
    def assigned(self) -> Mapping[MessageQueue, AssignedQueue]:
        """Return the queues that this consumer has now."""
        return self._assignment.queues

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register with the brokers and take queues. What is sent after this returns is received.

        A topic without a route is waited for; Refused, if a broker cannot evaluate the filter; SubscriptionConflict, if
        one refuses the consumer since the group's members subscribe to something else.
        """
        self._session.check_open()
        await self._follow_group()
        for topic, wanted in self._filters.items():
            await self._read_route(topic)
            await check_filter(self._session, self.group, topic, wanted)
        self._session.heartbeats.add_member(self.group, self)
        self.is_open = True
        try:
            self._service.start()
            await self._session.heartbeats.send()
            if self._refusal is not None:
                raise self._refusal
            self._is_running = True
            await self._follow_mode()
            await self._assignment.start()
            self._start_followers()
        except BaseException:  # a strategy of the user's may raise anything: the group is free again
            await self.stop()
            raise

    async def _follow_group(self) -> None:
        """Consume in order if the group is set so at a broker, unless the options say how to consume."""
        if self.options.orderly is not None or self.options.broadcast:
            return
        is_orderly = await self._order.ask()
        if is_orderly:
            self._turn_orderly()
        self._assignment.is_undecided = is_orderly is None
        if is_orderly is None:
            log.warning("no broker says yet whether the group consumes in order: it waits for one", group=self.group)

    def _turn_orderly(self) -> None:
        log.info("consumes in order: the group is set so (consumeMessageOrderly)", group=self.group)
        is_paused = self.is_paused
        self._consume_by(replace(self.options, orderly=True))
        self._pulls.is_paused, self._assignment.is_refused = is_paused, self._refusal is not None

    async def _follow_mode(self) -> None:
        """Begin to pop if brokers say so, where the options leave it to them. They know this member by now."""
        if self.options.mode == "server":
            mode = await ask_mode(self._session, self.group, self._filters)
            if mode is MessageRequestMode.POP:
                self._is_told_to_pop = True
                await self._begin_anew(self.options)

    def _start_followers(self) -> None:
        if not self.is_open:
            return
        if self.options.orderly is None and not self.options.broadcast:
            self._tasks.start(self._follow_later_brokers())
        if self.options.mode == "server":
            self._tasks.start(self._follow_later_mode())

    async def _follow_later_brokers(self) -> None:
        """Ask brokers that were not there at the start. Where one has the group set so, end all and begin in order."""
        assignment, is_orderly = self._assignment, None
        while not is_orderly:
            await self.clock.sleep(INCOMPLETE_PAUSE_S if assignment.is_undecided else self.options.rebalance_s)
            is_orderly = await self._order.ask()
            if assignment.is_undecided and is_orderly is False:
                assignment.is_undecided = False
                assignment.changed.ring()
        log.info("consumes in order: the group is set so (consumeMessageOrderly)", group=self.group)
        await self._restart(replace(self.options, orderly=True))

    async def _follow_later_mode(self) -> None:
        """Ask again and again whether to pull or to pop; after a change end all and begin so."""
        mode = is_told = None
        while is_told is None or is_told == self._is_told_to_pop:
            await self.clock.sleep(self.options.rebalance_s)
            mode = await ask_mode(self._session, self.group, self._filters)
            is_told = None if mode is None else mode is MessageRequestMode.POP
        log.info("consumes as its brokers want it", group=self.group, mode=None if mode is None else mode.value)
        self._is_told_to_pop = is_told
        await self._restart(self.options)

    async def _restart(self, options: ConsumeOptions) -> None:
        """End everything that consumes, finish what is being handled, and begin with these options."""
        self._assignment.close()
        await self._service.finish(self.options.grace_s)
        await self._assignment.release()
        await self._tasks.cancel()
        if self.is_open:
            await self._begin_anew(options)
            await self._assignment.start(is_running=True)
            self._start_followers()

    async def _begin_anew(self, options: ConsumeOptions) -> None:
        is_paused, is_undecided = self.is_paused, self._assignment.is_undecided
        await self._tasks.cancel()
        self._consume_by(options)
        self._pulls.is_paused, self._assignment.is_refused = is_paused, self._refusal is not None
        self._assignment.is_undecided = is_undecided and not options.orderly
        self._service.start()

    async def _read_route(self, topic: str) -> None:
        """Read the route before the first heartbeat, which goes to known brokers only.

        A topic may come later. Brokers that could make it hear of the subscription now: a conflict shows at once.
        """
        try:
            await self._session.route(topic)
        except Error as fault:
            if isinstance(fault, TopicNotFound):
                self._starts.expect(topic)
            if not names.is_retry(topic):  # that one is made by the first heartbeat
                log.warning("no queues to consume yet", group=self.group, fault=str(fault))
                with suppress(Error):
                    await self._session.route(names.AUTO_CREATE_TOPIC)

    async def stop(self) -> None:
        """End the pulls, let running handlers finish (`grace_s`), commit what is done, and leave the group.

        If this is cancelled, the stop goes on all the same. A second call awaits its end.
        """
        if self.is_open:
            self.is_open = False
            self._stopping = asyncio.get_running_loop().create_task(self._finish())
        if (stopping := self._stopping) is not None:
            try:
                await asyncio.shield(stopping)
            finally:
                self._stopping = None if stopping.done() else stopping

    async def _finish(self) -> None:
        self._assignment.close()
        await self._service.finish(self.options.grace_s)
        self._worker.close()
        await self._assignment.release()
        await self._tasks.cancel()
        await self._session.heartbeats.remove_member(self.group)
        self._ended.set()

    async def wait(self) -> None:
        """Return once the consumer was stopped; raise what killed it, if something did.

        SubscriptionConflict, while a broker refuses it: it has no queues then, asks again, and may go on.
        """
        await self._ended.wait()
        if self._refusal is not None:
            raise self._refusal
        if self._fault is not None:
            raise Error(f"consumer of {self.group!r} died: {self._fault!r}") from self._fault

    def _died(self, fault: BaseException) -> None:
        log.error("consumer loop died", group=self.group, fault=repr(fault))
        self._fault = self._fault or fault
        self._ended.set()

    def note_refusal(self, why: SubscriptionConflict | None) -> None:
        """Give up all queues while a broker refuses this consumer, and take them again after that."""
        self._refusal = why
        if not self._is_running:
            return  # `start` raises it
        self._assignment.is_refused = why is not None
        self._assignment.changed.ring()
        if why is not None:
            log.error("refused by the group: it gets no messages until the group agrees", fault=str(why))
            self._ended.set()
        else:
            log.warning("accepted by the group again", group=self.group)
            if self._fault is None and self.is_open:
                self._ended.clear()

    @property
    def is_paused(self) -> bool:
        return self._pulls.is_paused

    def pause(self) -> None:
        """Pull nothing more until `resume`; what was pulled is still handled."""
        self._pulls.is_paused = True

    def resume(self) -> None:
        self._pulls.is_paused = False

    async def commit(self) -> None:
        """Commit what is done now. This happens by itself every `commit_s` seconds and at a stop."""
        await self._assignment.commit()

    # --- what brokers and operators ask ---------------------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """Return this consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.PASSIVELY,
            message_model=MessageModel.BROADCASTING if self.options.broadcast else MessageModel.CLUSTERING,
            consume_from_where=self.options.begin,
            subscription_data_set=[wanted.describe(topic, self._version) for topic, wanted in self._filters.items()],
        )

    def facts(self) -> dict[str, str]:
        """Return what operators may ask for (307), under the names that they know from Java."""
        return {
            "PROP_CONSUMEORDERLY": str(bool(self.options.orderly)).lower(),
            "PROP_CONSUME_TYPE": ConsumeType.PASSIVELY.value,
            "PROP_NAMESERVER_ADDR": ";".join(self._session.config.name_servers),
            "PROP_THREADPOOL_CORE_SIZE": str(self.options.concurrency),
            "PROP_CLIENT_VERSION": "V5_5_0",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._version),
        }

    async def try_now(self, message: StoredMessage, queue: MessageQueue) -> Exception | None:
        """Give this one message to the handler. Nothing follows from it, neither an offset nor a retry."""
        received = self.received(message, queue)
        (fault,) = await self.runner([received])
        if fault is not None:
            self.failures.log(received, fault, "nothing: an operator asked for this attempt")
        return fault

    def members_changed(self) -> None:
        """Allocate the queues anew, soon."""
        self._assignment.changed.ring()

    async def rebalance(self) -> bool:
        """Allocate the queues now. False: something was not known or not granted, it is tried again soon."""
        return await self._assignment.rebalance()

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Begin these queues anew at the offsets that an operator has set (220)."""
        self._assignment.reset(offsets)
