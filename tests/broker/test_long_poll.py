"""Held pulls: woken by their own queue, by their deadline, and by nothing else."""

from __future__ import annotations

from pyromq.broker.reading.long_poll import LongPoll, SuspendedPull, wait_until


def held(
    queue_id: int = 0, offset: int = 5, deadline: float = 15.0, topic: str = "T", owner: str = "c"
) -> SuspendedPull[str]:
    return SuspendedPull(topic, queue_id, offset, deadline, owner, f"{topic}/{queue_id}/{offset}/{deadline}")


def test_a_message_wakes_only_the_pulls_of_its_queue_that_wait_before_it() -> None:
    polls = LongPoll[str]()
    here, further, other_queue, other_topic = held(), held(offset=9), held(queue_id=1), held(topic="U")
    for pull in (here, further, other_queue, other_topic):
        polls.suspend(pull)
    assert polls.take_arrived("T", 0, readable=6) == [here]
    assert polls.take_arrived("T", 0, readable=9) == []
    assert polls.take_arrived("T", 0, readable=10) == [further]
    assert len(polls) == 2


def test_deadlines_come_in_order_and_each_once() -> None:
    polls = LongPoll[str]()
    late, early, same = held(deadline=20), held(deadline=10), held(deadline=10, queue_id=3)
    for pull in (late, early, same):
        polls.suspend(pull)
    assert polls.next_deadline() == 10
    assert polls.take_due(9.9) == []
    assert polls.take_due(10) == [early, same]
    assert polls.take_due(30) == [late]
    assert polls.take_due(30) == []
    assert polls.next_deadline() is None


def test_a_pull_held_again_keeps_its_deadline_and_is_answered_once() -> None:
    polls = LongPoll[str]()
    pull = held()
    polls.suspend(pull)
    assert polls.take_arrived("T", 0, 6) == [pull]
    pull.offset = 6
    polls.suspend(pull)
    assert len(polls) == 1
    assert polls.take_due(15) == [pull]
    assert polls.take_due(99) == []


def test_an_answered_pull_is_no_longer_due() -> None:
    polls = LongPoll[str]()
    polls.suspend(held())
    polls.take_arrived("T", 0, 6)
    assert polls.next_deadline() is None
    assert polls.take_due(99) == []


def test_a_lost_connection_takes_its_own_pulls_along() -> None:
    polls = LongPoll[str]()
    mine, theirs = held(owner="lost"), held(owner="alive")
    polls.suspend(mine)
    polls.suspend(theirs)
    polls.drop("lost")
    assert list(polls.suspended()) == [theirs]
    assert polls.take_due(99) == [theirs]


def test_topic_and_shutdown_take_what_is_left() -> None:
    polls = LongPoll[str]()
    first, second, other = held(), held(queue_id=1), held(topic="U")
    for pull in (first, second, other):
        polls.suspend(pull)
    assert polls.take_topic("T") == [first, second]
    assert polls.take_all() == [other]
    assert len(polls) == 0


def test_a_busy_queue_does_not_pile_up_answered_pulls() -> None:
    polls = LongPoll[str]()
    for offset in range(10_000):
        polls.suspend(held(offset=offset, deadline=1e9))
        polls.take_arrived("T", 0, offset + 1)
    assert len(polls._deadlines) < 200


def test_a_timer_that_comes_a_little_early_is_not_set_for_no_time_at_all() -> None:
    assert wait_until(5.0, 4.0) == 1.0
    assert wait_until(5.0, 4.9999) == 0.001  # uvloop takes a tenth of a millisecond for none
    assert wait_until(5.0, 5.0) == wait_until(5.0, 6.0) == 0.0
