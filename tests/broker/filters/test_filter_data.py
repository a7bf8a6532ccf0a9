"""What is kept of groups' filters: versions, death and revival, a day of memory, on a clock in the test's hand."""

from __future__ import annotations

import pytest

from pyromq.broker.clients.filter_data import ConsumerFilters
from pyromq.model.filters.bloom import Bloom
from pyromq.protocol.bodies.heartbeat import SubscriptionData
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.simulated_disk import SimulatedDisk

BLOOM = Bloom.sized(20, 32)
DAY_MS = 86_400_000


class Room:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.now = 1_700_000_000_000
        self.table = JsonTable(self.disk, "config/consumerFilter.json")
        self.filters = ConsumerFilters(self.table, lambda: self.now, BLOOM)

    def register(self, text: str, version: int, topic: str = "T") -> None:
        self.filters.register(
            "G", [SubscriptionData(topic=topic, sub_string=text, sub_version=version, expression_type="SQL92")]
        )

    def restart(self) -> None:
        self.table.save()
        self.table = JsonTable(self.disk, "config/consumerFilter.json")
        self.filters = ConsumerFilters(self.table, lambda: self.now, BLOOM)

    def expression(self, topic: str = "T") -> str | None:
        data = self.filters.find(topic, "G")
        return None if data is None else data.expression

    def is_dead(self, topic: str = "T") -> bool:
        data = self.filters.find(topic, "G")
        assert data is not None
        return data.dead_time >= data.born_time


def test_the_newest_version_counts() -> None:
    room = Room()
    room.register("a = 1", 5)
    room.register("a = 2", 5)
    room.register("a = 3", 4)
    assert room.expression() == "a = 1"
    room.register("a = 4", 6)
    assert room.expression() == "a = 4"


def test_a_mistake_takes_the_old_filter_along() -> None:
    room = Room()
    room.register("a = 1", 5)
    room.register("a =", 6)
    assert room.expression() is None
    room.restart()
    assert room.expression() is None


def test_a_topic_no_longer_subscribed_to_dies_and_comes_back() -> None:
    room = Room()
    room.register("a = 1", 5)
    room.register("b = 1", 5, topic="U")
    assert (room.is_dead("T"), room.is_dead("U")) == (True, False)
    room.register("a = 1", 5)
    assert (room.is_dead("T"), room.is_dead("U")) == (False, True)


@pytest.mark.parametrize("version", [5, 6])
def test_a_group_that_left_is_remembered_for_a_day(version: int) -> None:
    room = Room()
    room.register("a = 1", 5)
    room.now += 1_000
    room.filters.unregister("G")
    assert room.is_dead()
    room.now += DAY_MS - 1
    room.filters.clean(DAY_MS)
    room.register("a = 1", version)
    assert not room.is_dead()
    room.now += DAY_MS * 2
    room.filters.clean(DAY_MS)
    assert room.expression() == "a = 1"
    room.filters.unregister("G")
    room.now += DAY_MS
    room.filters.clean(DAY_MS)
    assert room.expression() is None
    room.restart()
    assert room.expression() is None


def test_a_start_takes_all_groups_for_dead() -> None:
    room = Room()
    room.register("a = 1", 5)
    room.now += 3_600_000
    room.restart()
    data = room.filters.find("T", "G")
    assert data is not None
    assert (data.dead_time, data.client_version) == (room.now - 30_000, 5)
    room.register("a = 1", 5)
    assert not room.is_dead()


def test_tags_leave_no_filter() -> None:
    room = Room()
    room.filters.register("G", [SubscriptionData(topic="T", sub_string="TagA || TagB", sub_version=1)])
    room.filters.register("G", [SubscriptionData(topic="U", sub_string="", sub_version=1, expression_type="SQL92")])
    assert (room.expression("T"), room.expression("U")) == (None, None)


# As org.apache.rocketmq.filter.util.BloomFilter of 5.5.0 computes them.
@pytest.mark.parametrize(
    ("size", "name", "positions"),
    [
        ((20, 32), "GID_orders#Orders", [15, 3, 8]),
        ((20, 32), "a group of more than sixteen#topic with a longer name", [71, 38, 107]),
        ((20, 32), "ü#€", [57, 73, 92]),
        ((10, 128), "G#T", [192, 82, 27, 174]),
        ((1, 7), "G#T", [40, 66, 51, 14, 31, 34, 60]),
    ],
)
def test_bit_positions_are_javas(size: tuple[int, int], name: str, positions: list[int]) -> None:
    assert Bloom.sized(*size).positions(name) == positions


def test_filters_of_groups_that_are_gone_make_room_and_those_in_use_stay() -> None:
    room = Room()
    room.filters = ConsumerFilters(room.table, lambda: room.now, BLOOM, most_bytes=100_000)
    room.register("a = 1", 5)
    for number in range(500):
        room.now += 1
        text = f"b = '{number}{'x' * 5000}'"
        group = f"flood-{number}"
        room.filters.register(group, [SubscriptionData(topic="T", sub_string=text, expression_type="SQL92")])
        assert room.filters.find("T", group) is not None
        room.filters.unregister(group)
        assert room.filters.table_bytes <= 100_000
    assert room.expression() == "a = 1"
    assert not room.is_dead()
    room.restart()
    assert room.expression() == "a = 1"
    assert room.filters.table_bytes <= 100_000


def test_a_filter_for_which_there_is_no_room_is_not_taken() -> None:
    room = Room()
    room.filters = ConsumerFilters(room.table, lambda: room.now, BLOOM, most_bytes=10_000)
    for number in range(20):
        data = SubscriptionData(topic="T", sub_string=f"b = {number}", expression_type="SQL92")
        room.filters.register(f"G{number}", [data])
    assert room.filters.find("T", "G0") is not None
    assert room.filters.find("T", "G19") is None
    assert room.filters.table_bytes <= 10_000
