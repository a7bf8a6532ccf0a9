"""Simple consumers: the caller asks for messages, and says what becomes of each. Made by `Client.simple_consumer`.

    async with client.simple_consumer("orders", group="billing", invisible_s=60) as consumer:
        for msg in await consumer.receive(max=32, wait=10):
            await charge(msg.decode(Order))
            msg.ack()

Messages are shared out one by one among the members of a group, whatever their number: a member that is slow holds up
nobody. A message that is neither acknowledged nor given more time within `invisible_s` comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from ... import logs
from ...model.group import ConsumeType
from ...protocol.bodies.heartbeat import ConsumerData
from ...protocol.messages import UnreadableMessage
from ..arguments import Seconds, check_count, check_filter_kind, check_group, check_kind, check_topic, seconds
from ..connect.background import Lifecycle, Tasks
from ..connect.session import Session
from ..consume.group_calls import check_filter
from ..consume.group_order import GroupOrder
from ..core.retry import Retry
from ..errors import Closed, Error, NoBroker, SubscriptionConflict
from ..subscription import Filter
from ..tracing.trace_writer import Tracer
from ..tracing.traced_work import trace_pulled
from ..values import choose_codec
from .leases import Leases
from .options import MOST_RECEIVED, SimpleOptions
from .pop_calls import Handed, PopCalls
from .popped import Popped
from .pops import pops_of
from .receiving import Receiving

log = logs.get("pyromq.client")


class SimpleConsumer(Lifecycle):
    """The caller receives messages and acknowledges them. Use it as `async with`, or call `start` and `stop`.

    Belongs to the event loop that it was started on. Any number of tasks may call `receive` at a time.
    """

    def __init__(
        self,
        session: Session,
        group: str,
        wanted: Mapping[str, Filter],
        options: SimpleOptions | None = None,
        tracer: Tracer | None = None,
        calls: PopCalls | None = None,
    ) -> None:
        """`calls`: the way to the brokers, if it is another than remoting."""
        check_kind("the topic", wanted, Mapping, "a string (or a mapping of topics to filters)")
        check_group(group)
        if not wanted:
            raise Error("a consumer of no topic", hint="Name one or more")
        for topic, each in wanted.items():
            check_topic(topic)
            check_filter_kind(each)
        self._session, self._tracer = session, tracer
        self._own_group, self.group = group, session.on_wire(group)
        self.options = options or SimpleOptions()
        self._codec = choose_codec(self.options.codec, session.config.codec)
        self._filters = {session.on_wire(topic): each for topic, each in wanted.items()}
        self._calls = calls or pops_of(session, self.group, Retry(of_group=True))
        self.leases = Leases(self._calls, session.clock, self.group, self.options.ack_linger_s)
        self._receiving = Receiving(self._calls, session, self.group, self._filters, self.options, self._abandon)
        self._order = GroupOrder(session, self.group, self._filters)
        self._is_ordered = self.options.orderly
        # Of receives that were given up: what they still bring is given back, also after a stop.
        self._abandoned = Tasks(lambda fault: log.debug("an abandoned receive failed", fault=repr(fault)))
        self._iterated: list[Popped] = []
        self._version = session.clock.now_ms()
        self._refusal: SubscriptionConflict | None = None
        self._unreadable = 0
        self.is_open = False

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register with the brokers. Refused, if one cannot evaluate a filter; SubscriptionConflict, if the group's
        members subscribe to something else."""
        self._session.check_open()
        await self._decide_order()
        for topic, wanted in self._filters.items():
            try:
                await self._session.route(topic)
            except Error as fault:  # it may come later
                log.warning("no queues to consume yet", group=self.group, fault=str(fault))
            await check_filter(self._session, self.group, topic, wanted)
        self._session.heartbeats.add_member(self.group, self)
        self.is_open = True
        await self._session.heartbeats.send()
        if self._refusal is not None:
            refusal = self._refusal
            await self.stop()
            raise refusal

    async def _decide_order(self) -> None:
        if self._is_ordered is None:
            self._is_ordered = await self._order.ask()

    async def stop(self) -> None:
        """Wait for the acknowledgements, give back what is neither acknowledged nor expired, and leave the group."""
        if self.is_open:
            self.is_open = False
            await self._receiving.stop()
            unread, self._iterated = self._iterated, []
            await self.leases.give_back(unread)
            await self.leases.close()
            await self._session.heartbeats.remove_member(self.group)

    def describe(self) -> ConsumerData:
        """Return this consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.POP,
            consume_from_where=self.options.begin,
            subscription_data_set=[wanted.describe(topic, self._version) for topic, wanted in self._filters.items()],
        )

    def note_refusal(self, why: SubscriptionConflict | None) -> None:
        """Let `receive` raise it while a broker refuses this consumer."""
        self._refusal = why

    def members_changed(self) -> None:
        """Do nothing: messages are shared out by the broker."""

    # --- messages -------------------------------------------------------------------------------------------------

    async def receive(self, max: int = 16, wait: Seconds = 15.0, *, invisible: Seconds | None = None) -> list[Popped]:
        """Return up to `max` messages. While there are none, wait for the first ones; return [] when the time is over.

        `invisible` stands in place of `invisible_s`. If this is cancelled, what it would have brought is given back.
        """
        self._check_open()
        check_count("max", max, MOST_RECEIVED, example=16)
        wait_s = seconds(wait)
        invisible_s = self.options.invisible_s if invisible is None else seconds(invisible)
        if wait_s < 0 or invisible_s <= 0:
            raise Error(f"receive(wait={wait!r}, invisible={invisible!r}) has no time", hint="Write wait=10")
        if self._is_ordered is None:
            await self._decide_order()
            if self._is_ordered is None:
                await self._receiving.places()  # which says it, if a topic is missing
                raise NoBroker("no broker says yet whether the group consumes in order", hint="Is one running?")
        until = self._session.clock.monotonic() + wait_s
        while True:
            handed = await self._receiving.receive(max, until, invisible_s, is_ordered=bool(self._is_ordered))
            found = await self._chosen(self._leased(handed, invisible_s))
            if not self.is_open:  # stopped meanwhile
                await self.leases.give_back(found)
                self._check_open()
            if found or self._session.clock.monotonic() >= until:
                return found

    def _leased(self, handed: Iterable[Handed], invisible_s: float) -> list[Popped]:
        until = self._session.clock.monotonic() + invisible_s
        namespace = self._session.config.namespace
        found = []
        for message, queue, receipt in handed:
            about = {"receipt": receipt, "until": until, "keeper": self.leases}
            found.append(Popped(message, queue, namespace, self._own_group, self._codec, **about))
        self.leases.add(found)
        return found

    async def _chosen(self, found: list[Popped]) -> list[Popped]:
        """Return what the caller shall see; this may be nothing although something came."""
        try:
            good = [each for each in found if not await self._is_left_out(each)]
        except asyncio.CancelledError:
            self._abandoned.start(self.leases.give_back(found))
            raise
        if self._tracer is not None:
            trace_pulled(self._tracer, good, self.group)
        return good

    def _abandon(self, handed: list[Handed]) -> None:
        """Give back what came for a receive that was cancelled."""
        if handed and not self._session.is_closed:
            self._abandoned.start(self.leases.give_back(self._leased(handed, self.options.invisible_s)))

    async def _is_left_out(self, popped: Popped) -> bool:
        """Return whether it is nothing for the caller: not the tag (brokers compare hashes), or nobody can read it."""
        message = popped.message
        if isinstance(message, UnreadableMessage):
            self._unreadable += 1
            way = self.options.on_unreadable
            log.error("a record cannot be read", group=self.group, id=message.message_id, fault=message.fault, way=way)
            if way == "dead-letter":
                try:
                    await popped.dead_letter(message.fault)
                except Error as fault:
                    self._session.outages.warn("an unreadable record comes again", fault, id=message.message_id)
            else:
                popped.ack()
            return True
        if not self._filters[popped.queue.topic].matches(message):
            popped.ack()
            return True
        return False

    async def __aiter__(self) -> AsyncIterator[Popped]:
        """Yield one message after another, without end. Each is to be acknowledged; what expired before its turn is
        left out, since it comes again."""
        try:
            while True:
                self._iterated += await self.receive(self.options.batch, self.options.hold_s)
                while self._iterated:
                    msg = self._iterated.pop(0)
                    if not msg.is_expired:
                        yield msg
        finally:
            unread, self._iterated = self._iterated, []
            if self.is_open:
                self._abandoned.start(self.leases.give_back(unread))

    async def ack(self, messages: Iterable[Popped]) -> None:
        """Acknowledge all of these, and wait for the answers. Raise the first failure."""
        acks = [each.ack() for each in messages]
        for broken in await asyncio.gather(*acks, return_exceptions=True):
            if isinstance(broken, BaseException):
                raise broken

    async def flush(self) -> None:
        """Send the acknowledgements that were gathered, and wait for the answers.

        Raise the first failure of those whose result nobody has awaited.
        """
        await self.leases.flush()

    @property
    def open(self) -> Sequence[Popped]:
        """Return the messages that are neither acknowledged nor given back nor expired."""
        return self.leases.open

    @property
    def unreadable(self) -> int:
        """The number of records that came and that nobody can read."""
        return self._unreadable

    def _check_open(self) -> None:
        if not self.is_open:
            raise Closed("this consumer is not started, or stopped", hint="Use it inside its `async with` block")
        self._session.check_open()
        if self._refusal is not None:
            raise self._refusal
