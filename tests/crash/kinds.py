"""Every kind of message under random kill -9 of the broker, with a ledger that knows what must come of each.

Real processes and real time: a name server, a broker that is killed and started again, raw producers, our SDK's
consumers. Plain, ordered, delayed, timed, transactional, retried and dead messages at once; the rules are in
`kinds_ledger.py`, faults on purpose in `kinds_broker.py`.

    python -m tests.crash.kinds --minutes 10 [--seed N] [--fault NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.received import Received
from pyromq.errors import PyroError
from pyromq.model.codes import RequestCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message import StoredMessage
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from pyromq.protocol.command import Command
from pyromq.protocol.messages import decode_messages
from pyromq.protocol.properties import encode_properties
from pyromq.transport.client import Client as Caller
from pyromq.transport.dispatch import Dispatcher, Request
from tests.crash.kinds_broker import KINDS_TOPIC, LANES_TOPIC
from tests.crash.kinds_ledger import End, Ledger, Outage, Sent
from tests.interop.peers import ours
from tests.interop.peers.process import Program, ProgramFailed

ROOT = Path(__file__).parents[2]
LEVELS_S = (1, 1, 1, 2, 2, 2, 2, 2)
RETRY_WAITS_MS = {n: LEVELS_S[n + 1] * 1000 for n in range(1, 5)}  # the first retry waits for level 3
SETTINGS = {
    "messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS_S),
    "flushConsumerOffsetInterval": "200",
    "flushDelayOffsetInterval": "500",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "500",
    "transactionCheckMax": "100000",
    "mappedFileSizeCommitLog": str(1 << 20),
}
MOST_RETRIES = 2
PRODUCERS = "kinds-producers"
CONSUMERS, IN_ORDER = "kinds-consumers", "lanes-consumers"
COMMIT, ROLLBACK = 8, 12


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class FaultyBroker(ours.Broker):
    """Our broker by way of `kinds_broker`, so that it may have a fault."""

    fault = "none"

    def _started(self) -> Program:
        command: list[str | Path] = [sys.executable, "-m", "tests.crash.kinds_broker", self.fault, "-c", self.conf]
        env = {"HOME": str(self.home), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        if self.fault != "none":
            env["PYROMQ_KERNEL"] = "python"  # where the faults are
        program = Program(command, name="pyromq broker", env=env, cwd=self.home)
        try:
            program.wait_for(r"pyromq broker ready on ")
        except ProgramFailed:
            program.kill()
            raise
        return program


@dataclass(slots=True)
class Plan:
    seconds: float
    seed: int = 1
    fault: str = "none"
    kill_every_s: tuple[float, float] | None = (3.0, 25.0)
    patience_s: float = 20.0  # without anything new before the rest is given up as lost


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
        self._has_timers = has_timers
        self._fates: dict[str, int] = {}
        self._numbers = 0
        routes = {RequestCode.CHECK_TRANSACTION_STATE: self._asked}
        self.caller = Caller(clock=SystemClock(), rng=Random(1), dispatch=Dispatcher(routes))  # type: ignore[arg-type]

    def tasks(self) -> list[Callable[[], Any]]:
        kinds = [self._plain, self._delayed, self._retried, self._rejected, self._exhausted, self._transaction]
        if self._has_timers:
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
        fate, told = self._rng.choice([(COMMIT, True), (COMMIT, False), (ROLLBACK, True), (ROLLBACK, False)])
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
            client.push_consumer(
                KINDS_TOPIC, self.handle, group=CONSUMERS, retry=Retry(attempts=MOST_RETRIES), **common
            ),
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


async def kill_again_and_again(broker: ours.Broker, ledger: Ledger, rng: Random, plan: Plan) -> None:
    """Until the time is over; the broker runs then."""
    end = time.monotonic() + plan.seconds
    while plan.kill_every_s is not None:
        pause = rng.uniform(*plan.kill_every_s)
        if time.monotonic() + pause > end:
            break
        await asyncio.sleep(pause)
        outage = Outage(now_ms(), now_ms() + 3_600_000)
        ledger.outages.append(outage)
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(rng.choice([0, rng.uniform(0, 1)]))
        await asyncio.to_thread(broker.restart)
        outage.back_ms = now_ms()
    await asyncio.sleep(max(0.0, end - time.monotonic()))


async def drain(ledger: Ledger, consumers: Consumers, patience_s: float) -> None:
    """Until everything has ended as it should, or nothing new has come for a while."""
    seen, since = -1, time.monotonic()
    while True:
        await consumers.read_dead_letters()
        progress = ledger.handled + sum(map(len, ledger.dead.values()))
        if progress != seen:
            seen, since = progress, time.monotonic()
        if not ledger.open() or time.monotonic() - since > patience_s:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.5)  # what comes twice, or although it was rolled back, needs time to come
    await consumers.read_dead_letters()
    await consumers.count_stored()


async def run(folder: Path, plan: Plan) -> tuple[list[str], dict[str, object]]:
    """Broken promises, and figures."""
    rng = Random(plan.seed)
    ledger = Ledger(RETRY_WAITS_MS)
    async with AsyncExitStack() as stack:
        name_server = await asyncio.to_thread(ours.NameServer, folder / "names")
        stack.callback(name_server.kill)
        kind = type("Broker", (FaultyBroker,), {"fault": plan.fault})
        broker = await asyncio.to_thread(kind, folder / "broker", [name_server.address], SETTINGS)
        stack.callback(lambda: broker.kill())
        producers = Producers(ledger, broker.address, rng, has_timers=False)
        stack.push_async_callback(producers.caller.close)
        producers._has_timers = await takes_timers(producers)
        consumers = Consumers(ledger, producers)
        await consumers.start(stack, name_server.address)
        tasks = [asyncio.create_task(task()) for task in producers.tasks()]
        await kill_again_and_again(broker, ledger, rng, plan)
        for task in tasks[:-1]:  # all but the heartbeats, which the checks of transactions need
            task.cancel()
        await asyncio.gather(*tasks[:-1], return_exceptions=True)
        await drain(ledger, consumers, plan.patience_s)
        tasks[-1].cancel()
        await asyncio.gather(tasks[-1], return_exceptions=True)
    return ledger.problems(), ledger.figures()


async def takes_timers(producers: Producers) -> bool:
    properties = {"TIMER_DELIVER_MS": str(now_ms() + 100)}
    return await producers.send("probe", 0, "probe", properties) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", default="none")
    wanted = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="pyromq-kinds-") as folder:
        plan = Plan(wanted.minutes * 60, wanted.seed, wanted.fault)
        problems, figures = asyncio.run(run(Path(folder), plan))
    print(json.dumps(figures, indent=2))
    for problem in problems[:50]:
        print(problem)
    if problems:
        print(f"{len(problems)} promises were broken")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
