"""The table of blocks: Java's file, byte for byte, and a journal that brings back what the file does not have yet."""

from __future__ import annotations

import pytest

from pyromq.broker.metadata.groups import Groups
from pyromq.broker.metadata.topics import Topics
from pyromq.broker.pop.order.block import Block
from pyromq.broker.pop.order.table import CHANGE, OrderLane, OrderTable
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.files.disk import read_whole, replace_durably
from pyromq.store.tables.json_tables import JsonTable, TableDamaged
from pyromq.testing.simulated_disk import SimulatedDisk

FILE = "config/consumerOrderInfo.json"
NOW = 1_794_851_933_427
LANE = OrderLane("T", "G", 0)
HELD = Block(NOW, 60_000, (1, 2), NOW + 1, "attempt", 3, {}, {})
DAY_MS = 24 * 3_600_000

JAVA = """{
\t"orderInfoCount":1,
\t"orderedConsumptionLevel":"QUEUE",
\t"table":{
\t\t"T@G":{
\t\t\t0:{
\t\t\t\t"a":"attempt",
\t\t\t\t"cm":3,
\t\t\t\t"i":60000,
\t\t\t\t"l":1794851933428,
\t\t\t\t"o":[1,1],
\t\t\t\t"oc":{},
\t\t\t\t"popTime":1794851933427
\t\t\t}
\t\t}
\t}
}"""


class Kept:
    """A table on a disk, with its journal."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.journal: list[tuple[int, bytes]] = []
        self._table = JsonTable(disk, FILE)
        self.orders = OrderTable(self._table, lambda *entry: self.journal.append(entry))
        self.topics = Topics(JsonTable(disk, "config/topics.json"), lambda: NOW)
        self.groups = Groups(JsonTable(disk, "config/subscriptionGroup.json"), lambda: NOW)
        self.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
        self.groups.put(SubscriptionGroupConfig(group_name="G"))

    def store(self, now_ms: int = NOW) -> bool:
        is_new = self.orders.store_changed(self.topics, self.groups, now_ms)
        self._table.save()
        return is_new

    @property
    def text(self) -> str:
        return read_whole(self.disk, FILE).decode()


@pytest.fixture
def kept(disk: SimulatedDisk) -> Kept:
    return Kept(disk)


def test_the_file_is_javas(kept: Kept) -> None:
    kept.orders.put(LANE, HELD)
    assert kept.store()
    assert kept.text == JAVA
    assert not kept.store()


def test_a_file_of_java_is_read_and_written_again_as_it_was(disk: SimulatedDisk) -> None:
    whole = JAVA.replace('"oc":{}', '"oc":{1:2,2:1},\n\t\t\t\t"ot":{2:1794851999000}')
    replace_durably(disk, FILE, whole.encode())
    kept = Kept(disk)
    found = kept.orders.find(LANE)
    assert found == Block(NOW, 60_000, (1, 2), NOW + 1, "attempt", 3, {1: 2, 2: 1}, {2: 1_794_851_999_000})
    assert found is not None
    kept.orders.put(LANE, found)
    kept.store()
    rendered = whole.replace("{1:2,2:1}", "{\n\t\t\t\t\t1:2,\n\t\t\t\t\t2:1\n\t\t\t\t}")
    assert kept.text == rendered.replace("{2:1794851999000}", "{\n\t\t\t\t\t2:1794851999000\n\t\t\t\t}")


def test_a_new_file_has_javas_members(kept: Kept) -> None:
    kept.store()
    assert kept.text == '{\n\t"orderInfoCount":0,\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":{}\n}'


def test_blocks_of_old_brokers_without_time_block_nothing_and_empty_ones_are_none(disk: SimulatedDisk) -> None:
    replace_durably(disk, FILE, b'{"table":{"T@G":{0:{"o":[7],"popTime":5},1:{"o":[],"popTime":5}}}}')
    orders = Kept(disk).orders
    found = orders.find(LANE)
    assert found is not None
    assert not found.is_blocking(None, 6)
    assert orders.find(OrderLane("T", "G", 1)) is None


def test_a_damaged_file_is_not_started_with(disk: SimulatedDisk) -> None:
    replace_durably(disk, FILE, b'{"table":{"T@G":{0:{"o":["x"]}}}}')
    with pytest.raises(TableDamaged, match="consumerOrderInfo"):
        Kept(disk)


@pytest.mark.parametrize(
    ("lane", "now_ms"),
    [
        (OrderLane("gone", "G", 0), NOW),
        (OrderLane("T", "gone", 0), NOW),
        (OrderLane("T", "G", 2), NOW),
        (OrderLane("T", "G", 1), NOW + DAY_MS + 2),
    ],
)
def test_what_nobody_can_use_is_dropped_when_the_file_is_written(kept: Kept, lane: OrderLane, now_ms: int) -> None:
    kept.orders.put(lane, HELD)
    assert kept.store(now_ms)
    assert '"table":{}' in kept.text
    assert len(kept.orders) == 0


def test_a_block_is_kept_for_a_day(kept: Kept) -> None:
    kept.orders.put(LANE, HELD)
    kept.store(NOW + DAY_MS)
    assert kept.orders.find(LANE) == HELD


# --- the journal ------------------------------------------------------------------------------------------------------


def after_a_kill(kept: Kept) -> OrderTable:
    orders = OrderTable(JsonTable(kept.disk, FILE), lambda *entry: None)
    for one in kept.journal:
        orders.replay(*one)
    return orders


def test_a_replay_brings_back_every_change_since_the_file_was_written(kept: Kept) -> None:
    kept.orders.put(LANE, Block(NOW, 1, (1, 2), NOW, "a"))
    kept.store()
    changed = Block(NOW, 1, (1, 2), NOW, "a", 1, {1: 1}, {2: NOW + 9})
    kept.orders.put(LANE, changed)
    other = OrderLane("T", "G", 1)
    kept.orders.put(other, HELD)
    assert dict(after_a_kill(kept).all()) == {LANE: changed, other: HELD}


def test_entries_older_than_the_file_change_nothing(kept: Kept) -> None:
    kept.orders.put(LANE, Block(NOW, 1, (1, 2), NOW, "a"))
    kept.orders.put(LANE, Block(NOW, 1, (1, 2), NOW, "a", 1))
    newer = Block(NOW + 5, 1, (3,), NOW + 5, "b")
    kept.orders.put(LANE, newer)
    kept.store()
    kept.journal.pop()  # as if Java had popped
    assert after_a_kill(kept).find(LANE) == newer


def test_an_ack_that_only_the_file_has_stays(kept: Kept) -> None:
    kept.orders.put(LANE, Block(NOW, 1, (1, 2), NOW, "a", 1))
    kept.orders.put(LANE, Block(NOW, 1, (1, 2), NOW, "a", 3))
    kept.store()
    kept.journal.pop()
    found = after_a_kill(kept).find(LANE)
    assert found is not None
    assert found.acked == 3


def test_a_dropped_block_stays_dropped_and_one_that_came_later_does_not(kept: Kept) -> None:
    kept.orders.put(LANE, HELD)
    kept.store()
    kept.orders.drop(LANE, NOW + 5)
    assert after_a_kill(kept).find(LANE) is None
    later = Block(NOW + 6, 1, (1,), NOW + 6)
    kept.orders.put(LANE, later)
    kept.store()
    kept.journal.pop()
    assert after_a_kill(kept).find(LANE) == later


def test_an_entry_that_cannot_be_read_is_left_out_and_told(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    kept.orders.replay(CHANGE, b"\x91\xff")
    kept.orders.replay(200, b"of somebody else")
    assert len(caplog.records) == 1
    assert "cannot be read" in caplog.text


def test_the_journal_tells_which_lanes_are_ahead_of_the_files(kept: Kept) -> None:
    other = OrderLane("T", "G", 1)
    kept.orders.put(LANE, HELD)
    number = kept.orders.number
    kept.orders.put(other, HELD)
    kept.orders.note_saved(number)
    assert after_a_kill(kept).unsaved.keys() == {other}
    kept.orders.note_saved(kept.orders.number)
    assert not after_a_kill(kept).unsaved
