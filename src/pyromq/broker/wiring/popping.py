"""Popping: handing out single messages for a time, and everything that belongs to it."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from ...errors import PyroError
from ...kernel import state
from ...model.pop_names import normal_topic
from ...protocol.requests import RequestCode as Code
from ...transport.dispatch import Handler, bind
from ...transport.peer import Peer
from ..clients.pulled_queues import PulledQueues
from ..metadata.offsets import SEPARATOR
from ..pop.ack import AckHandler
from ..pop.change import ChangeHandler
from ..pop.checks import PopChecks
from ..pop.handler import PopHandler
from ..pop.order.table import OrderLane
from ..pop.queries.glances import Glances
from ..pop.queries.notification import NotificationHandler, PollingInfo
from ..pop.queries.peek import PeekHandler
from ..pop.queries.request_mode import RequestModes
from ..pop.receipts import ReceiptChecks
from ..pop.rollback import roll_back
from ..pop.seams import Spill
from ..pop.verdicts import Popping
from ..pop.waiting import ANY_QUEUE, HeldPops
from ..pop.walk import Walk
from ..pop.young.aging import Aging
from ..pop.young.journal import PopJournal
from ..pop.young.lane_source import LaneSource
from ..pop.young.lanes import Lanes
from ..pop.young.recovery import PopRecovery
from ..pop.young.revive import Revive
from ..pull.verdicts import PullChanges
from .foundation import Foundation
from .ordering import OrderParts
from .serving import PullParts, SendParts

BASE_S = 1.0
AnyHeld: TypeAlias = HeldPops[Any]


class PopParts:
    """Event loop only. `recover` once, before the first pop arrives."""

    def __init__(self, base: Foundation, sends: SendParts, pulls: PullParts, modes: RequestModes) -> None:
        live, clock, store, access = base.live, base.clock, base.store, sends.access
        self._base, self._modes = base, modes
        self.table = state.PopTable(base.environment.config.pop_table_bytes)
        self.journal = PopJournal(live, access, self.table)
        self.lanes = Lanes(self.table, base.offsets, self.journal)
        is_waiting = pulls.handler.suspended.has_pull
        self.pulled = pulled = PulledQueues(base.consumers, base.offsets, clock, is_waiting)
        reading = (pulls.reads, self.lanes, pulled, base.counters.got, self._in_flight)
        self.source = source = LaneSource(live, store, *reading)
        self.order = OrderParts(base, pulls, self.lanes, pulled, self._in_flight, self._wake)
        checks = PopChecks(base.topics, base.groups)
        self.handler = PopHandler(
            live,
            clock,
            checks,
            Walk(live, base.topics),
            source,
            self.order.pops,
            self.journal,
            store,
            base.environment.rng.randrange,
            base.clients.popped,
            pulled,
        )
        receipts = ReceiptChecks(base.topics, store)
        self.acks = AckHandler(live, receipts, self.lanes, self.order.pops)
        self.changes = ChangeHandler(live, clock, receipts, self.lanes, self.order.pops)
        self.revive = Revive(live, access, self.lanes, base.topics, base.groups)
        self.aging = Aging(live, clock, self.lanes)
        self._recovery = PopRecovery(access, self.lanes, self.order.table.replay)
        glances = Glances(live, base.topics, checks, store, self.lanes, base.offsets, pulled)
        self.peeks = PeekHandler(glances, base.environment.rng.randrange)
        self.notifications = NotificationHandler(glances, clock, store, self.order.lanes)
        self.polling = PollingInfo(glances, self.handler)
        self._saved_number = 0  # of the last entry on messages in order that the files have
        self._saved_offset = 0  # of the journal, when the offsets that are on disk were read
        pulls.handler.pops = self
        for each in (self.lanes, pulled, modes):
            pulls.parts.changes.watch_pops(each)
        pulled.watch(self._pulled_moved)
        base.groups.watch(self._group_changed)
        base.offsets.watch(self._offsets_moved)

    def is_popped(self, topic: str, group: str) -> bool:
        """Return whether the group pops the topic, and no member pulls one of its queues."""
        return self._base.clients.popped.find(group, topic) is not None and not self.pulled.has_any(topic, group)

    def use_spill(self, spill: Spill) -> None:
        """Take what writes check points down that leave memory (`stored_pops.py`)."""
        self.acks.spill = self.changes.spill = self.aging.spill = spill

    def parts(self, changes: PullChanges) -> Popping:
        """Return what a kernel's verdicts on pops stand for."""
        return Popping(
            self.handler,
            self.source,
            self.acks,
            self.lanes,
            self._base.offsets,
            changes,
        )

    def handlers(self) -> Iterator[tuple[int, Handler]]:
        """Return what `surface.py` binds: a code whose handler is not here yet keeps its row's refusal."""
        yield bind(Code.POP_MESSAGE, self.handler)
        yield bind(Code.ACK_MESSAGE, self.acks)
        yield bind(Code.BATCH_ACK_MESSAGE, self.acks.batch)
        yield bind(Code.CHANGE_MESSAGE_INVISIBLETIME, self.changes)
        yield bind(Code.POP_ROLLBACK, roll_back)
        yield bind(Code.PEEK_MESSAGE, self.peeks)
        yield bind(Code.NOTIFICATION, self.notifications)
        yield bind(Code.POLLING_INFO, self.polling)

    @property
    def _held(self) -> tuple[AnyHeld, ...]:
        """Return the tables of those who wait."""
        return self.handler.held, self.notifications.held

    def _wake(self, lane: OrderLane) -> None:
        """Let one who waits on the queue look again, and one who waits on any: it is free, or its time is over."""
        for held in self._held:
            held.wake(lane.topic, lane.group, ANY_QUEUE)
            held.wake(lane.topic, lane.group, lane.queue_id)

    def _in_flight(self, lane: int) -> int:
        group = self.table.names(lane)[0]
        return sum(one.messages for one in self.table.in_flight(group) if one.lane == lane)

    # --- figures --------------------------------------------------------------------------------------------------

    def parked(self) -> dict[str, int]:
        """Return what waits for consumers, for the inspection command; nothing that is 0."""
        waits = {
            "popped messages, in flight": sum(one.messages for one in self.table.in_flight()),
            "messages popped in order, in flight": self.order.table.in_flight(),
            "pops that wait for a message": len(self.handler.held),
            "popped messages, lost before they were acknowledged": self.revive.lost,
        }
        return {name: count for name, count in waits.items() if count}

    def figures(self) -> dict[str, str]:
        """Return what the runtime information has of popping; ours alone."""
        in_flight = self.table.in_flight()
        numbers = {
            "InFlight": sum(one.messages for one in in_flight),
            "OrderInFlight": self.order.table.in_flight(),
            "CheckPoints": sum(one.points for one in in_flight),
            "TableBytes": self.table.used_bytes,
            "Waiting": len(self.handler.held),
            "Acked": self.acks.acked,
            "Revived": self.revive.revived,
            "Spilled": self.aging.spilled,
            "Lost": self.revive.lost,
            "JournalRecords": self.journal.records,
        }
        return {f"pyromqPop{name}": str(number) for name, number in numbers.items()}

    # --- for pulls and offset requests (`PoppedLanes`) ------------------------------------------------------------

    def must_see_pulls(self, topic: str, group: str, queue_id: int) -> bool:
        if self._is_open(topic, group, queue_id):
            return True
        is_switched = self._modes.find(normal_topic(topic, group), group) is not None
        return is_switched and not self.pulled.is_pulled(topic, group, queue_id)

    def leave_for(self, peer: Peer, topic: str, group: str, queue_id: int) -> Awaitable[None] | None:
        self.pulled.take(peer, topic, group, queue_id)
        return self.leave(topic, group, queue_id)

    def leave(self, topic: str, group: str, queue_id: int) -> Awaitable[None] | None:
        return self.aging.leave_lane(group, topic, queue_id) if self._is_open(topic, group, queue_id) else None

    def _is_open(self, topic: str, group: str, queue_id: int) -> bool:
        return self.aging.spill is not None and self.lanes.find(group, topic, queue_id) is not None

    # --- what happens ---------------------------------------------------------------------------------------------

    def connection_lost(self, peer: Peer) -> None:
        for held in self._held:
            held.drop(peer)

    def topic_changed(self, name: str) -> None:
        """Answer who waits on a topic that is gone or may not be read any more, so that they ask again."""
        for held in self._held:
            held.end_pairs(lambda topic, _: topic == name)

    def end_held(self) -> None:
        """Answer all who wait that nothing has come, so that they ask again and are judged anew."""
        for held in self._held:
            held.dismiss_all()

    def _offsets_moved(self, pair: str) -> None:
        """Wake who waits where an administrator has moved the group; offsets that were dropped wake nobody."""
        topic, _, group = pair.partition(SEPARATOR)
        if self._base.offsets.queues(topic, group):
            self.handler.held.wake_all_queues(normal_topic(topic, group), group)

    def _pulled_moved(self, pair: str) -> None:
        """Wake who waits where a member no longer pulls. If one has begun to, they find nothing and wait on."""
        topic, _, group = pair.partition(SEPARATOR)
        for held in self._held:
            held.wake_all_queues(normal_topic(topic, group), group)

    def _group_changed(self, name: str) -> None:
        if self._base.groups.find(name) is None:
            self.lanes.close_all(lambda group, _: group == name)
            self._base.clients.popped.forget_group(name)
        for held in self._held:
            held.end_pairs(lambda _, group: group == name)

    # --- start and stop -------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        if self._base.offsets.left_by_java:
            self._recovery.pass_over()
            self._base.offsets.mark_ours()
            with suppress(PyroError):  # a full disk: it is marked with the next offsets
                await self._base.tables.offsets_saved()
        else:
            await self._recovery.run()
        self.order.lanes.adopt()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        environment = self._base.environment
        return [
            environment.loops.keep("revival of popped messages", self.revive.run),
            environment.loops.keep("old check points", self.aging.run),
            environment.loops.keep("base of the pop journal", self._keep_base),
            environment.loops.keep("offsets of the pop journal", self._keep_saved),
        ]

    async def _keep_base(self) -> None:
        """Tell where a replay has to begin, each second in which anything has changed."""
        stirred, clock = self.journal.stirred(), self._base.clock
        while True:
            await stirred.wait()
            await clock.sleep(BASE_S)
            self.journal.flush()
            is_used = self.journal.next_offset > 0  # a broker that nobody pops from writes nothing
            is_new = is_used and self.table.note_base(self.journal.next_offset, self._saved_offset)
            stirred.clear()
            if is_new:
                self.journal.flush()

    async def _keep_saved(self) -> None:
        """Note from where on the journal is needed, since committed offsets are on disk up to there."""
        environment, stirred = self._base.environment, self.journal.stirred()
        while True:
            await stirred.wait()
            stirred.clear()
            await environment.clock.sleep(environment.config.flush_consumer_offset_interval / 1000)
            await self._save_offsets()

    async def _save_offsets(self) -> None:
        self.journal.flush()
        before = self.journal.next_offset
        if before > self._saved_offset:
            number = self.order.table.number
            await self.order.saved()
            await self._base.tables.offsets_saved()
            self._saved_offset = before
            if number > self._saved_number:
                self._saved_number = number
                self.order.table.note_saved(number)
                self.journal.changed()

    def end_waits(self) -> None:
        """Answer all that wait: the broker stops."""
        for held in self._held:
            held.end_all()
        self.order.lanes.close()
        self.journal.flush()

    async def close(self) -> None:
        """Let everything that is in flight leave memory: as records of the log, or at least in the journal."""
        await self.aging.leave_all()
        with suppress(PyroError):  # a full disk: the journal has it all, and the tables are tried once more
            await self._save_offsets()
        self.journal.flush()
        await self.order.close_tables()
