"""Queue locks: one client at a time, renewed by its owner, taken over once they have expired."""

from __future__ import annotations

import json
from pathlib import Path

from pyromq.broker.clients.order_locks import LOCK_S, OrderLocks, OrderLockTable
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode
from pyromq.store.message_store import run_at_once
from pyromq.store.tables.json_tables import JsonTable
from pyromq.store.tables.table_saver import TableSaver
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, Virtual, virtual_broker


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


# --- over restarts ----------------------------------------------------------------------------------------------------


def kept(table: JsonTable, locks: OrderLocks, now: float = 0) -> OrderLockTable:
    return OrderLockTable(table, locks, now, TableSaver(table, run_at_once).saved)


async def test_owners_outlive_a_kill_and_then_expire_as_if_renewed_at_the_start() -> None:
    disk = SimulatedDisk()
    locks = OrderLocks()
    table = kept(JsonTable(disk, "pyromq/orderLocks.json"), locks)
    locks.lock("G", "c1", [queue(0), queue(1)], now=0)
    locks.lock("G", "c2", [queue(2)], now=0)
    locks.unlock("G", "c1", [queue(1)])
    await table.keep()

    again = OrderLocks()
    kept(JsonTable(disk.kill(), "pyromq/orderLocks.json"), again, now=1000)
    assert again.lock("G", "new", [queue(0), queue(1), queue(2)], now=1000) == [queue(1)]
    assert again.lock("G", "c1", [queue(0)], now=1030) == [queue(0)]
    assert again.lock("G", "new", [queue(0), queue(2)], now=1000 + LOCK_S) == [queue(2)]


async def test_a_renewal_writes_nothing_and_a_group_without_locks_leaves_the_table() -> None:
    disk = SimulatedDisk()
    locks = OrderLocks()
    table = JsonTable(disk, "pyromq/orderLocks.json")
    keeper = kept(table, locks)
    locks.lock("G", "c1", [queue(0)], now=0)
    await keeper.keep()
    written = table.changes
    locks.lock("G", "c1", [queue(0)], now=20)
    await keeper.keep()
    assert table.changes == written
    locks.sweep(now=20 + LOCK_S)
    await keeper.keep()
    assert JsonTable(disk, "pyromq/orderLocks.json").load() == {"locks": {}}


async def test_a_restarted_broker_gives_no_queue_to_another_while_its_owner_may_be_at_work(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        assert await locked(life, "c1") == [0, 1]
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        assert await locked(life, "c2") == []
        await life.advance(30)
        assert await locked(life, "c1") == [0, 1]
        await life.advance(59)
        assert await locked(life, "c2") == []
        await life.advance(1)
        assert await locked(life, "c2") == [0, 1], "its owner is dead"


async def locked(life: Virtual, client: str) -> list[int]:
    life.broker.topics.put(TopicConfig(topic_name="T"))
    life.broker.groups.put(SubscriptionGroupConfig(group_name="G"))
    queues = [{"brokerName": "broker-a", "queueId": number, "topic": "T"} for number in (0, 1)]
    body = {"consumerGroup": "G", "clientId": client, "mqSet": queues, "onlyThisBroker": False}
    answer = await life.call(RequestCode.LOCK_BATCH_MQ, json.dumps(body).encode())
    return sorted(one["queueId"] for one in json.loads(bytes(answer.body))["lockOKMQSet"])
