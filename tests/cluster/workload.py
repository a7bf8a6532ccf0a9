"""Clients of the SDK in a simulated cluster: each is a task of a client machine, and writes into the history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pyromq.ambient import Random
from pyromq.client.client import Client
from pyromq.client.errors import Error
from pyromq.client.pop.popped import Popped
from pyromq.client.produce.producer import Producer
from pyromq.client.produce.sending import SendPolicy, SendStatus
from pyromq.client.received import Received
from tests.cluster.history import ClientHistory, MessagePlace
from tests.cluster.machines import seconds_of

PLAIN, KEYED, LATER, TRANSACTED, POPPED = "plain", "keyed", "later", "transacted", "popped"
KEYS = ("k0", "k1", "k2")
INVISIBLE_S = 4.0
ONCE = SendPolicy(once=True)  # what is sent again is stored once: brokers keep a duplicate window


class Workload:
    """What clients do. `now` is the time outside."""

    def __init__(self, history: ClientHistory, rng: Random, now: Callable[[], float]) -> None:
        self.history, self.rng, self._now = history, rng, now
        self.is_sending = True
        self._number = 0

    def parts(self, make: Callable[[], Client]) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """Return what clients can do, each with a client of its own."""
        return {
            PLAIN: lambda: self.send_plain(make(), PLAIN),
            KEYED: lambda: self.send_keyed(make()),
            LATER: lambda: self.send_later(make()),
            TRANSACTED: lambda: self.transact(make()),
            POPPED: lambda: self.send_plain(make(), POPPED),
        }

    def _body(self, kind: str) -> bytes:
        self._number += 1
        return f"{kind} {self._number}".encode()

    async def _send(self, producer: Producer, topic: str, body: bytes, **how: Any) -> bool:
        """Return whether it was acknowledged."""
        try:
            sent = await producer.send(topic, body, **how)
        except Error:
            self.history.unknown.add(body)
            return False
        if sent.status is not SendStatus.OK:
            self.history.unknown.add(body)
            return False
        if topic != LATER:  # whose place is that of its delivery
            self.history.ack(body, MessagePlace(topic, sent.queue.queue_id, sent.queue_offset))
        return True

    async def send_plain(self, client: Client, topic: str) -> None:
        async with client, client.producer(policy=ONCE) as producer:
            while self.is_sending:
                await self._send(producer, topic, self._body(topic), timeout=self.rng.choice([1, 3]))
                await asyncio.sleep(self.rng.random() * 0.3)

    async def send_keyed(self, client: Client) -> None:
        async with client, client.producer(policy=ONCE) as producer:
            while self.is_sending:
                key, body = self.rng.choice(KEYS), self._body(KEYED)
                if await self._send(producer, KEYED, body, order_key=key):
                    self.history.keys.setdefault(key, []).append(body)
                await asyncio.sleep(self.rng.random() * 0.3)

    async def send_later(self, client: Client) -> None:
        async with client, client.producer(policy=ONCE) as producer:
            while self.is_sending:
                body, delay_s = self._body(LATER), self.rng.choice([1, 2, 3, 5])
                due = self._now() + delay_s
                how = {"delay_level": 1} if delay_s == 1 else {"delay": delay_s}
                if await self._send(producer, LATER, body, **how):
                    self.history.due_ms[body] = due
                await asyncio.sleep(self.rng.random() * 0.6)

    async def transact(self, client: Client) -> None:
        history, wanted = self.history, dict[bytes, bool]()

        def decide(body: bytes) -> bool:
            """Decide once what becomes of a half message; a later question gets the same answer."""
            if body not in wanted:
                wanted[body] = self.rng.random() < 0.7
                (history.committed if wanted[body] else history.rolled_back).add(body)
            return wanted[body]

        async with client, client.producer("keepers", policy=ONCE) as producer:

            @producer.transaction_check(TRANSACTED)
            async def check(half: Received) -> bool | None:
                return None if self.rng.random() < 0.2 else decide(half.body)

            while self.is_sending:
                body = self._body(TRANSACTED)
                try:
                    async with producer.transaction(TRANSACTED, body) as half:
                        if self.rng.random() < 0.3:
                            half.leave_open()
                        elif decide(body):
                            half.commit()
                        else:
                            half.rollback()
                except Error:
                    history.unknown.add(body)  # the broker asks, if it has the half
                await asyncio.sleep(self.rng.random() * 0.6)
            await asyncio.sleep(3600)  # to answer

    async def consume(self, client: Client, group: str, topics: tuple[str, ...], seen: set[bytes]) -> None:
        async def handle(message: Received) -> None:
            place = MessagePlace(message.topic, message.queue.queue_id, message.offset)
            if message.attempt == 1:
                self.history.come(place, message.body, self._now())
            seen.add(message.body)
            await asyncio.sleep(self.rng.random() * 0.01)

        async with client:
            for topic in topics:
                await client.push_consumer(topic, handle, group=f"{group}-{topic}", begin="first").start()
            await asyncio.sleep(3600)

    async def pop(self, client: Client) -> None:
        async with client, client.simple_consumer(POPPED, group="poppers", begin="first") as consumer:
            while True:
                try:
                    found = await consumer.receive(8, 2, invisible=INVISIBLE_S)
                except Error:
                    await asyncio.sleep(0.2)
                    continue
                for message in found:
                    await self._take(message)

    async def _take(self, message: Popped) -> None:
        """Handle a message, and acknowledge most of them.

        It is invisible to others from when the broker took it on, not from when we have it: an answer that was long on
        its way may come when the message is about to be given out again. Its acknowledgement is taken, and promises
        nothing then."""
        until = seconds_of(message.receipt.pop_time) + INVISIBLE_S - 1
        self.history.pop(message.body)
        if self.rng.random() < 0.2:
            return  # it comes again
        try:
            await message.ack()
        except Error:
            return
        if self._now() < until:
            self.history.pop_acked.add(message.body)
