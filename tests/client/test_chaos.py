"""An hour of virtual time in which everything goes wrong: cut connections, refusals, delays, restarts and kills.

What was acked to a producer is handled by every group, in order where that was asked for, and never twice at once.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from pyromq.client.core.retry import RetryLater
from pyromq.client.errors import Error
from pyromq.client.produce.producer import Producer
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.testing.broker import RmqBroker
from pyromq.testing.faults import PULLS, SENDS

MINUTES = 60
FIRST = ConsumeFromWhere.FIRST_OFFSET
KEYS = ("ann", "bob", "eve")


class Group:
    """Notes what it handles; fails now and then, a message at most twice."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._at_once: Counter[tuple[MessageQueue, int]] = Counter()
        self.most_at_once = 0
        self.order: dict[str, list[int]] = defaultdict(list)
        self.done: Counter[bytes] = Counter()

    async def __call__(self, msg: Received) -> None:
        place = (msg.queue, msg.offset)  # a send that was repeated is stored twice under one id: two messages
        self._at_once[place] += 1
        self.most_at_once = max(self.most_at_once, self._at_once[place])
        try:
            await asyncio.sleep(0)  # others have their turn meanwhile
            if msg.attempt < 3 and self._rng.random() < 0.2:
                raise self._rng.choice([ValueError("no luck"), RetryLater(5)])
            self.done[msg.body] += 1
            if msg.order_key is not None:
                self.order[msg.order_key].append(int(msg.body.split()[1]))
        finally:
            self._at_once[place] -= 1


class Sends:
    """What the broker has acked."""

    def __init__(self, plain: Producer, keyed: Producer) -> None:
        self._plain, self._keyed = plain, keyed
        self.acked: set[bytes] = set()
        self.failed = 0
        self._next: Counter[str] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    def some(self) -> None:
        self._start("", self._plain)
        for key in KEYS:
            self._start(key, self._keyed)

    def _start(self, key: str, producer: Producer) -> None:
        body = b"%s %d" % (key.encode() or b"-", self._next[key])
        self._next[key] += 1
        self._tasks.append(asyncio.create_task(self._send(body, key, producer)))

    async def _send(self, body: bytes, key: str, producer: Producer) -> None:
        try:
            await producer.send("keyed" if key else "plain", body, order_key=key or None)
            self.acked.add(body)
        except Error:
            self.failed += 1  # not acked: it may be stored or not

    @property
    def pending(self) -> int:
        return sum(not task.done() for task in self._tasks)


async def trouble(broker: RmqBroker, rng: random.Random) -> None:
    kind = rng.randrange(7)
    faults = broker.faults
    if kind == 0:
        faults.disconnect()
    elif kind == 1:
        faults.refuse(SENDS, code=ResponseCode.SYSTEM_BUSY, times=rng.randrange(1, 6))
    elif kind == 2:
        faults.refuse(PULLS, code=ResponseCode.SYSTEM_ERROR, times=rng.randrange(1, 4))
    elif kind == 3:
        faults.delay(rng.random() * 4, SENDS, times=rng.randrange(1, 4))
    elif kind == 4:
        await broker.restart()
    elif kind == 5:
        await broker.kill()


def first_times(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


@pytest.mark.parametrize("seed", [1, *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 12))])
async def test_an_hour_of_chaos(rmq_broker: RmqBroker, seed: int) -> None:
    rng = random.Random(seed)
    for topic in ("plain", "keyed"):
        await rmq_broker.create_topic(topic, 2)
    sender = await rmq_broker.client()
    readers = [await rmq_broker.client() for _ in range(2)]
    policy = SendPolicy(timeout_s=30, retries=5)
    plain, keyed = sender.producer("plain", policy=policy), sender.producer("keyed", policy=policy)
    groups = {"billing": Group(rng), "ledger": Group(rng)}
    options: dict[str, dict[str, Any]] = {"billing": {}, "ledger": {"orderly": True}}
    topics = {"billing": "plain", "ledger": "keyed"}
    for producer in (plain, keyed):
        await producer.start()
    for reader in readers:
        for name, group in groups.items():
            await reader.push_consumer(topics[name], group, group=name, begin=FIRST, **options[name]).start()
    sends = Sends(plain, keyed)
    for _ in range(MINUTES):
        sends.some()
        await rmq_broker.clock.advance(rng.randrange(5, 30))
        await trouble(rmq_broker, rng)
        sends.some()
        await rmq_broker.clock.advance(30)
    rmq_broker.faults.clear()
    await rmq_broker.clock.advance(minutes=5)
    assert sends.pending == 0
    assert len(sends.acked) > MINUTES * 6  # most of them, whatever happened
    handled = set(groups["billing"].done) | set(groups["ledger"].done)
    assert sends.acked - handled == set()
    for name, group in groups.items():
        assert group.most_at_once == 1
        assert rmq_broker.lag(topics[name], name) == 0
        assert rmq_broker.messages(f"%DLQ%{name}") == []
    for key in KEYS:
        seen = first_times(groups["ledger"].order[key])
        assert seen == sorted(seen), key
