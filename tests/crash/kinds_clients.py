"""The clients of the checker of message kinds: raw producers of every kind, our SDK's consumers, and their ledger.

`kinds.py` runs them. What they send and get is told to the ledger; nothing is judged here.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import cycle
from random import Random
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.received import Received
from pyromq.errors import PyroError
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message import StoredMessage
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from pyromq.protocol.command import Command
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient as Caller
from pyromq.transport.dispatch import Dispatcher, Request
from tests.crash.kinds_broker import KINDS_TOPIC, LANES_TOPIC
from tests.crash.kinds_ledger import End, Ledger, Sent
from tests.wire import decode_messages

LEVELS_S = (1, 1, 1, 2, 2, 2, 2, 2)
MOST_RETRIES = 2
PRODUCERS = "kinds-producers"
CONSUMERS, IN_ORDER = "kinds-consumers", "lanes-consumers"
COMMIT, ROLLBACK = 8, 12


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def body_of(key: str, rng: Random) -> bytes:
    filler = rng.randbytes(rng.choice([10, 100, 2000])).hex()
    return f"{key}|{hashlib.sha256(filler.encode()).hexdigest()}|{filler}".encode()


def key_of(body: bytes) -> str:
    """Whose body it is; what is torn is nobody's."""
    key, _, rest = bytes(body).decode("utf-8", "replace").partition("|")
    digest, _, filler = rest.partition("|")
    return key if hashlib.sha256(filler.encode()).hexdigest() == digest else f"torn {body[:40]!r}"


class Producers:
    """Raw requests, one message at a time for each kind."""

    def __init__(self, ledger: Ledger, address: str, rng: Random, has_timers: bool) -> None:
        self._ledger = ledger
        self._address = address
        self._rng = rng
        self.has_timers = has_timers
        self._fates: dict[str, int] = {}
        self._next_fates = cycle([(COMMIT, True), (ROLLBACK, True), (COMMIT, False), (ROLLBACK, False)])
        self._numbers = 0
        routes = {RequestCode.CHECK_TRANSACTION_STATE: self._asked}
        self.caller = Caller(clock=SystemClock(), rng=Random(1), dispatch=Dispatcher(routes))  # type: ignore[arg-type]

    def tasks(self) -> list[Callable[[], Any]]:
        kinds = [self._plain, self._delayed, self._retried, self._rejected, self._exhausted, self._transaction]
        if self.has_timers:
            kinds.append(self._timed)
        lanes = [partial(self._lane, lane) for lane in range(2)]
        return [*(partial(self._on_and_on, kind) for kind in kinds), *lanes, self._heartbeats]

    # --- requests -------------------------------------------------------------------------------------------------

    async def call(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command | None:
        """None: nobody knows whether it was done."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        with suppress(PyroError, OSError):
            answer = await self.caller.call(self._address, Command(code=code, fields=texts, body=body), 3)
            return answer if answer.code == 0 else None
        return None

    async def send(
        self, topic: str, queue: int, key: str, properties: Mapping[str, str], flag: int = 0
    ) -> Command | None:
        fields = {
            "producerGroup": PRODUCERS,
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 2,
            "queueId": queue,
            "sysFlag": flag,
            "bornTimestamp": now_ms(),
            "flag": 0,
            "properties": encode_properties({"UNIQ_KEY": key, **properties}).decode(),
        }
        return await self.call(RequestCode.SEND_MESSAGE, fields, body_of(key, self._rng))

    async def _heartbeats(self) -> None:
        data = HeartbeatData(client_id="kinds@1", producer_data_set=[ProducerData(group_name=PRODUCERS)])
        while True:
            await self.call(RequestCode.HEART_BEAT, {}, encode_body(data))
            await asyncio.sleep(1)

    # --- kinds ----------------------------------------------------------------------------------------------------

    def _new(self, kind: str, **facts: Any) -> Sent:
        self._numbers += 1
        return self._ledger.send(Sent(f"{kind}-{self._numbers}", kind, now_ms(), **facts))

    async def _on_and_on(self, kind: Callable[[], Any]) -> None:
        while True:
            acked = await kind()
            await asyncio.sleep(self._rng.uniform(0.02, 0.2) if acked else 0.2)

    async def _put(self, one: Sent, **properties: str) -> bool:
        one.acked = await self.send(KINDS_TOPIC, self._rng.randrange(2), one.key, properties) is not None
        return one.acked

    async def _plain(self) -> bool:
        return await self._put(self._new("plain"))

    async def _delayed(self) -> bool:
        level = self._rng.choice([1, 4])
        return await self._put(self._new("delayed", delay_ms=LEVELS_S[level - 1] * 1000), DELAY=str(level))

    async def _timed(self) -> bool:
        due = now_ms() + self._rng.randrange(200, 4000)
        return await self._put(self._new("timed", due_ms=due), TIMER_DELIVER_MS=str(due))

    async def _retried(self) -> bool:
        return await self._put(self._new("retried", fails=self._rng.choice([1, 2])))

    async def _rejected(self) -> bool:
        return await self._put(self._new("rejected", end=End.DEAD))

    async def _exhausted(self) -> bool:
        return await self._put(self._new("exhausted", end=End.DEAD))

    async def _lane(self, lane: int) -> None:
        """One after another: the next only once this one is acked, however often that takes."""
        number = 0
        while True:
            fails = int(self._rng.random() < 0.1)
            one = self._new("ordered", lane=str(lane), number=number, fails=fails)
            while not one.acked:
                one.acked = await self.send(LANES_TOPIC, lane, one.key, {}) is not None
                one.tries += not one.acked
                await asyncio.sleep(0.05 if one.acked else 0.2)
            number += 1

    # --- transactions ---------------------------------------------------------------------------------------------

    async def _transaction(self) -> bool:
        fate, told = next(self._next_fates)
        word = "committed" if fate == COMMIT else "rolled-back"
        one = self._new(word if told else f"{word}-when-asked", end=End.DELIVERED if fate == COMMIT else End.NEVER)
        self._fates[one.key] = fate
        answer = await self.send(KINDS_TOPIC, 0, one.key, {"TRAN_MSG": "true", "PGROUP": PRODUCERS}, flag=4)
        one.acked = answer is not None
        if answer is not None and told:
            position = int(answer.fields["msgId"][-16:], 16)
            await self._end(one.key, fate, position, answer.fields["queueOffset"], asked=False)
        return one.acked

    async def _end(self, key: str, fate: int, position: object, offset: object, *, asked: bool) -> None:
        fields = {
            "producerGroup": PRODUCERS,
            "tranStateTableOffset": offset,
            "commitLogOffset": position,
            "commitOrRollback": fate,
            "fromTransactionCheck": asked,
            "msgId": key,
            "transactionId": key,
        }
        await self.call(RequestCode.END_TRANSACTION, fields)

    async def _asked(self, request: Request) -> None:
        (message,) = decode_messages(request.command.body)
        key = key_of(message.body)
        fields = request.command.fields
        await self._end(key, self._fates[key], fields["commitLogOffset"], fields["tranStateTableOffset"], asked=True)


class Consumers:
    """Our SDK's consumers: one that takes everything at once, one in order; and the dead letters, pulled."""

    def __init__(self, ledger: Ledger, producers: Producers) -> None:
        self._ledger = ledger
        self._producers = producers
        self._dead_offset = 0

    async def start(self, stack: AsyncExitStack, name_server: str) -> None:
        config = ClientConfig(name_servers=(name_server,), trouble_pause_s=0.2, instance="kinds")
        client = await stack.enter_async_context(Client(config, rng=Random(3)))
        common: dict[str, Any] = {"begin": ConsumeFromWhere.FIRST_OFFSET, "commit_s": 0.5, "rebalance_s": 2.0}
        for consumer in (
            client.push_consumer(KINDS_TOPIC, self.handle, group=CONSUMERS, retry=Retry(times=MOST_RETRIES), **common),
            client.push_consumer(LANES_TOPIC, self.handle_in_order, group=IN_ORDER, orderly=True, **common),
        ):
            await stack.enter_async_context(consumer)

    async def handle(self, msg: Received) -> None:
        key = key_of(msg.body)
        if not self._ledger.delivered(key, msg.message.reconsume_times, now_ms()):
            raise Reject if key.startswith("rejected") else ValueError(key)

    async def handle_in_order(self, msg: Received) -> None:
        if not self._ledger.delivered(key_of(msg.body), msg.message.reconsume_times, now_ms()):
            raise RetryLater(0.05)

    async def read_dead_letters(self) -> None:
        """What is new."""
        topic = f"%DLQ%{CONSUMERS}"
        for message in await self._read(topic, 0, self._dead_offset):
            self._ledger.dead[key_of(message.body)].append(message.store_timestamp)
            self._dead_offset = message.queue_offset + 1

    async def count_stored(self) -> None:
        for topic in (KINDS_TOPIC, LANES_TOPIC):
            for queue in range(2):
                for message in await self._read(topic, queue, 0):
                    self._ledger.stored[key_of(message.body)] += 1

    async def _read(self, topic: str, queue: int, offset: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        fields = {
            "consumerGroup": "kinds-reader",
            "topic": topic,
            "queueId": queue,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
        }
        while (
            answer := await self._producers.call(RequestCode.PULL_MESSAGE, fields | {"queueOffset": offset})
        ) is not None:
            found += decode_messages(answer.body)
            offset = int(answer.fields["nextBeginOffset"])
        return found
