from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.core.process_queue import FlowLimits, ProcessQueue
from pyromq.model.message import StoredMessage
from tests.client.messages import stored


def held(first: int, last: int, limits: FlowLimits | None = None, orderly: bool = False) -> ProcessQueue:
    queue = ProcessQueue(limits or FlowLimits(), orderly)
    queue.add(stored(offset) for offset in range(first, last + 1))
    return queue


def test_the_lowest_that_is_not_done_is_committed() -> None:
    queue = held(101, 110)
    taken = queue.take(10)
    queue.done(taken[1:])
    assert queue.commit_offset() == 101
    queue.done(taken[:1])
    assert queue.commit_offset() == 111


def test_nothing_held_commits_nothing_and_a_scan_without_match_does() -> None:
    queue = ProcessQueue(FlowLimits())
    assert queue.commit_offset() is None
    queue.skip_to(40)
    assert queue.commit_offset() == 40
    queue.add([stored(45)])
    queue.skip_to(60)
    assert queue.commit_offset() == 45


def test_a_dropped_queue_commits_nothing_whatever_ends_late() -> None:
    queue = held(1, 3)
    taken = queue.take(1)
    queue.drop()
    queue.done(taken)
    assert queue.commit_offset() is None
    assert queue.take(5) == []


def test_messages_given_back_wait_in_their_places() -> None:
    queue = held(1, 4)
    first = queue.take(2)
    queue.give_back(first)
    assert [message.queue_offset for message in queue.take(4)] == [1, 2, 3, 4]


def test_an_offset_is_handed_out_once_though_the_broker_repeats_it() -> None:
    queue = held(1, 3)
    queue.done(queue.take(3))
    queue.add([stored(2), stored(4)])
    assert [message.queue_offset for message in queue.take(5)] == [4]


def test_the_limits_are_those_of_java_unless_told_otherwise() -> None:
    assert FlowLimits() == FlowLimits(messages=1000, bytes=100 << 20, span=2000)
    assert held(1, 1000).full() is None
    assert held(1, 1001).full() == "1001 messages, the limit is 1000"


def test_each_limit_stops_the_pulls() -> None:
    assert held(1, 3, FlowLimits(messages=3)).full() is None
    assert held(1, 4, FlowLimits(messages=3)).full() == "4 messages, the limit is 3"
    assert held(1, 4, FlowLimits(bytes=3)).full() == "4 bytes, the limit is 3"
    gap = FlowLimits(span=10)
    queue = held(1, 12, gap)
    assert queue.full() == "offsets 1 to 12 are open, the limit is a span of 10"
    assert held(1, 12, gap, orderly=True).full() is None
    queue.done(queue.take(2))
    assert queue.full() is None
    assert queue.times_full == 1


@given(st.data())
def test_a_kill_at_any_moment_repeats_and_never_skips(data: st.DataObject) -> None:
    queue = held(0, 19)
    running: list[StoredMessage] = []
    finished: set[int] = set()
    for _ in range(data.draw(st.integers(0, 40))):
        running += queue.take(data.draw(st.integers(0, 3)))
        if running:
            message = running.pop(data.draw(st.integers(0, len(running) - 1)))
            queue.done([message])
            finished.add(message.queue_offset)
        commit = queue.commit_offset()
        assert commit is not None
        assert set(range(commit)) <= finished
        assert commit not in finished or commit == 20
