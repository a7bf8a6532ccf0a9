"""Blocks, positions and their journal against a small model: random pops, acks, changes, times, resets and kills.

What must hold, whatever happens: nobody gets a message of a queue while somebody else has one of it; nothing is given
before an earlier message that is open; what is acked up to the group's position never comes again but by a reset; and a
kill changes nothing of all that.
"""

from __future__ import annotations

from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyromq.broker.config import BrokerConfig
from pyromq.broker.metadata.groups import Groups
from pyromq.broker.metadata.offsets import Offsets
from pyromq.broker.metadata.topics import Topics
from pyromq.broker.pop.order.block import next_block
from pyromq.broker.pop.order.lanes import HeldQueues, OrderAck
from pyromq.broker.pop.order.table import OrderLane, OrderTable
from pyromq.broker.pop.young.lanes import Lanes
from pyromq.config import Live
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.simulated_disk import SimulatedDisk

LANE = OrderLane("T", "G", 0)
START_MS = 1_700_000_000_000
END = 40  # messages of the queue
attempts = st.sampled_from(["a", "b", "c", None])
times = st.integers(0, 30)


class Clock:
    """Time that the test moves; timers are never set off, since nobody waits here."""

    def __init__(self) -> None:
        self.now = START_MS

    def now_ms(self) -> int:
        return self.now

    def call_later(self, *_: Any) -> Any:
        return self

    def cancel(self) -> None: ...


class NoPlainLanes:
    """Nobody pops without order: the committed offset is the group's position."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets

    def find(self, *_: Any) -> None:
        return None

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        offset = self._offsets.find(topic, group, queue_id)
        while offset is not None and self._offsets.take_reset(topic, group, queue_id, offset) is not None:
            pass
        return offset

    def commit_start(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        return self._offsets.commit(topic, group, queue_id, offset)


class OrderModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.disk, self.clock = SimulatedDisk(), Clock()
        self.journal: list[tuple[int, bytes]] = []
        self.position = 0
        self.holder: tuple[str | None, int] | None = None  # attempt and pop time
        self.open: dict[int, int] = {}  # offset -> visible at
        self.given: list[tuple[int, int]] = []  # receipts: pop time and offset
        self.live()

    def live(self) -> None:
        """One life of a broker: tables from the disk, then the journal."""
        table = JsonTable(self.disk, "config/consumerOrderInfo.json")
        offset_table = JsonTable(self.disk, "config/consumerOffset.json")
        self.tables = table, offset_table
        self.offsets = Offsets(offset_table, self.clock.now_ms)
        self.orders = OrderTable(table, lambda *entry: self.journal.append(entry))
        for entry in self.journal:
            self.orders.replay(*entry)
        lanes, live = cast(Lanes, NoPlainLanes(self.offsets)), cast("Live[BrokerConfig]", None)
        self.held = HeldQueues(live, cast(Any, self.clock), self.orders, lanes, self.offsets, lambda lane: None)
        self.held.adopt()
        self.topics = Topics(JsonTable(self.disk, "config/topics.json"), self.clock.now_ms)
        self.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
        self.groups = Groups(JsonTable(self.disk, "config/subscriptionGroup.json"), self.clock.now_ms)
        self.groups.put(SubscriptionGroupConfig(group_name="G"))

    @property
    def is_held(self) -> bool:
        return any(visible_at > self.clock.now for visible_at in self.open.values())

    @rule(attempt=attempts, count=st.integers(1, 5), invisible=times)
    def pop(self, attempt: str | None, count: int, invisible: int) -> None:
        self.clock.now += 1  # no two pops in one millisecond
        is_same = self.holder is not None and attempt is not None and self.holder[0] == attempt
        expected = not self.is_held or is_same
        assert self.held.is_blocked(LANE, attempt) is not expected
        if not expected or self.position >= END:
            return
        begin = self.held.position(LANE) or 0
        offsets = list(range(begin, min(begin + count, END)))
        block = next_block(self.orders.find(LANE), attempt, offsets, self.clock.now, invisible, self.clock.now)
        self.held.hold(LANE, block)
        self.holder = attempt, self.clock.now
        self.open = dict.fromkeys(offsets, self.clock.now + invisible)
        self.given += [(self.clock.now, offset) for offset in offsets]

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        if not self.given:
            return
        pop_time, offset = data.draw(st.sampled_from(self.given))
        outcome = self.held.ack(LANE, pop_time, offset)
        is_current = self.holder is not None and self.holder[1] == pop_time and offset in self.open
        if is_current:
            assert outcome is OrderAck.NOTED
            del self.open[offset]
            block = self.orders.find(LANE)
            assert block is not None
            self.position = min(self.open, default=block.offsets[-1] + 1)
        elif outcome is OrderAck.NOTED:  # its block was forgotten by a reset: it may go on by this one alone
            assert self.holder is None
            assert offset == self.position
            self.position += 1

    @rule(data=st.data(), invisible=times)
    def change(self, data: st.DataObject, invisible: int) -> None:
        if not self.given:
            return
        pop_time, offset = data.draw(st.sampled_from(self.given))
        self.held.change(LANE, pop_time, offset, self.clock.now + invisible)
        if self.holder is not None and self.holder[1] == pop_time and offset in self.open:
            self.open[offset] = self.clock.now + invisible

    @rule(passed=times)
    def wait(self, passed: int) -> None:
        self.clock.now += passed

    @rule(offset=st.integers(0, END))
    def reset(self, offset: int) -> None:
        self.offsets.reset("T", "G", 0, offset)
        self.save()  # an administrator is answered when it is on disk
        self.position, self.holder, self.open = offset, None, {}

    @rule()
    def save(self) -> None:
        number = self.orders.number
        self.orders.store_changed(self.topics, self.groups, self.clock.now)
        self.offsets.store_changed()
        for table in self.tables:
            table.save()
        self.orders.note_saved(number)

    @rule()
    def kill(self) -> None:
        self.disk = self.disk.kill()
        self.live()

    @invariant()
    def is_where_the_model_is(self) -> None:
        if not hasattr(self, "held"):
            return
        assert (self.held.position(LANE) or 0) == self.position
        block = self.orders.find(LANE)
        assert (block.open_offsets() if block is not None else []) == sorted(self.open)


OrderModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOrder = OrderModel.TestCase
