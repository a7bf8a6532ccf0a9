"""Queue locks: one client at a time, renewed by its owner, taken over once they have expired."""

from __future__ import annotations

from pyromq.broker.order_locks import LOCK_S, OrderLocks
from pyromq.protocol.bodies.keyed import MessageQueue


def queue(number: int) -> MessageQueue:
    return MessageQueue(broker_name="broker-a", queue_id=number, topic="T")


def test_a_queue_has_one_owner_at_a_time() -> None:
    locks = OrderLocks()
    assert locks.lock("G", "c1", [queue(0), queue(1)], now=0) == [queue(0), queue(1)]
    assert locks.lock("G", "c2", [queue(1), queue(2)], now=0) == [queue(2)]
    assert locks.lock("H", "c2", [queue(1)], now=0) == [queue(1)]


def test_its_owner_renews_and_the_others_wait_for_the_expiry_counted_from_the_last_renewal() -> None:
    locks = OrderLocks()
    locks.lock("G", "c1", [queue(0)], now=0)
    assert locks.lock("G", "c1", [queue(0)], now=50) == [queue(0)]
    assert locks.lock("G", "c2", [queue(0)], now=50 + LOCK_S - 0.001) == []
    assert locks.lock("G", "c2", [queue(0)], now=50 + LOCK_S) == [queue(0)]
    assert locks.lock("G", "c1", [queue(0)], now=50 + LOCK_S) == []


def test_only_the_owner_unlocks() -> None:
    locks = OrderLocks()
    locks.lock("G", "c1", [queue(0)], now=0)
    locks.unlock("G", "c2", [queue(0)])
    assert locks.lock("G", "c2", [queue(0)], now=1) == []
    locks.unlock("G", "c1", [queue(0)])
    assert locks.lock("G", "c2", [queue(0)], now=1) == [queue(0)]


def test_a_group_counts_as_orderly_while_a_lock_has_not_expired() -> None:
    locks = OrderLocks()
    assert not locks.is_locked("G", 0)
    locks.lock("G", "c1", [queue(0)], now=0)
    assert locks.is_locked("G", LOCK_S - 1)
    assert not locks.is_locked("G", LOCK_S)
    assert not locks.is_locked("H", 0)


def test_a_sweep_forgets_what_has_expired_and_nothing_else() -> None:
    locks = OrderLocks()
    locks.lock("G", "c1", [queue(0)], now=0)
    locks.lock("G", "c2", [queue(1)], now=30)
    locks.lock("gone", "c3", [queue(0)], now=0)
    locks.sweep(now=LOCK_S)
    assert locks.holders(LOCK_S) == [("G", queue(1), "c2", 30)]
    assert list(locks._groups) == ["G"]


def test_asking_for_nothing_leaves_nothing() -> None:
    locks = OrderLocks()
    assert locks.lock("G", "c1", [], now=0) == []
    locks.unlock("G", "c1", [queue(0)])
    assert locks._groups == {}
