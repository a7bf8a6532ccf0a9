"""How far a group is behind, in Java's figure and in messages."""

from __future__ import annotations

import pytest

from pyromq.model.lag import difference, lag
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue
from pyromq.protocol.bodies.offsets import ConsumeStats, OffsetWrapper, TopicOffset, TopicStatsTable


@pytest.mark.parametrize(
    ("end", "committed", "java", "messages"), [(7, 5, 2, 2), (5, 5, 0, 0), (3, 5, -2, 0), (7, 0, 7, 7)]
)
def test_an_offset_beyond_the_end_leaves_nothing_to_consume(end: int, committed: int, java: int, messages: int) -> None:
    assert (difference(end, committed), lag(end, committed)) == (java, messages)


def test_a_queue_that_is_ahead_takes_nothing_off_the_others() -> None:
    behind = OffsetWrapper(broker_offset=10, consumer_offset=4, pull_offset=6)
    ahead = OffsetWrapper(broker_offset=3, consumer_offset=5)
    stats = ConsumeStats(offset_table=ByQueue({_queue(0): behind, _queue(1): ahead}))
    assert (stats.difference, stats.lag) == (4, 6)
    assert (behind.difference, behind.lag, behind.in_flight) == (6, 6, 2)


def test_messages_of_a_topic_are_those_of_its_queues() -> None:
    table = ByQueue({_queue(0): TopicOffset(min_offset=2, max_offset=5), _queue(1): TopicOffset()})
    assert TopicStatsTable(offset_table=table).count == 3


def _queue(number: int) -> MessageQueue:
    return MessageQueue(broker_name="a", queue_id=number, topic="t")
