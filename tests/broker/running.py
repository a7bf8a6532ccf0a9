"""A whole broker on loopback sockets and a folder of the test, with a client that speaks to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.ambient import Clock, SystemClock
from pyromq.audit.log import AuditLog
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.machine.budget import Budget
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.command import Command
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.requests import ROWS, RequestCode
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.in_process import SMALL_FILES, InProcessBroker
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher, Reply, Request

SMALL: dict[str, Any] = SMALL_FILES | {
    "timer_wheel_slots": 20_000,
    "wait_time_mills_in_send_queue": 60_000,  # a busy machine is no overload
    "max_loop_lag_ms": 60_000,
}


class Running:
    """A broker that serves, and one connection to it. Requests that the broker sends to us gather in `received`."""

    def __init__(self, broker: Broker, address: str, client: RemotingClient, received: list[Command]) -> None:
        self.broker = broker
        self.address = address
        self.client = client
        self.received = received

    async def call(self, code: int, body: bytes = b"", **fields: object) -> Command:
        texts = {
            name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in fields.items()
        }
        return await self.client.call(self.address, Command(code=code, fields=texts, body=body), 20)

    async def send(
        self,
        topic: str = "T",
        body: bytes = b"hello",
        queue: int = 0,
        properties: dict[str, str] | str = "",
        **extra: Any,
    ) -> Command:
        fields: dict[str, Any] = {
            "producerGroup": "P",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": queue,
            "sysFlag": 0,
            "bornTimestamp": 1_700_000_000_000,
            "flag": 0,
            "properties": properties if isinstance(properties, str) else encode_properties(properties).decode(),
        }
        return await self.call(RequestCode.SEND_MESSAGE, body, **(fields | extra))

    async def send_batch(self, bodies: list[bytes], topic: str = "T", unique: str = "U1", **extra: Any) -> Command:
        body = encode_batch(BatchEntry(one, 0, encode_properties({"KEYS": one.decode()})) for one in bodies)
        fields: dict[str, Any] = {
            "a": "P",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": 0,
            "f": 0,
            "g": 1_700_000_000_000,
            "h": 0,
            "i": encode_properties({"UNIQ_KEY": unique}).decode() if unique else "",
            "m": True,
        }
        return await self.call(RequestCode.SEND_BATCH_MESSAGE, body, **(fields | extra))

    async def pull(
        self, topic: str = "T", queue: int = 0, offset: int = 0, tags: str = "*", group: str = "G", **extra: Any
    ) -> Command:
        fields: dict[str, Any] = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": tags,
            "subVersion": 0,
        }
        return await self.call(RequestCode.PULL_MESSAGE, **(fields | extra))


@asynccontextmanager
async def running_broker(folder: Path, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Running]:
    """`audit` among the settings: the audit log, if there is one."""
    audit: AuditLog | None = settings.pop("audit", None)
    config = BrokerConfig(
        **(SMALL | {"broker_name": "broker-a", "listen_port": 0, "store_path_root_dir": folder} | settings)
    )
    clock = clock or SystemClock()
    disk = RealDisk(folder, create=True)
    life = await InProcessBroker.start(config, clock=clock, disk=disk, budget=Budget(memory_bytes=1 << 34), audit=audit)
    received: list[Command] = []

    def receive(request: Request) -> Reply:
        received.append(request.command)
        return Reply()

    client = RemotingClient(clock=clock, rng=random.Random(8), dispatch=Dispatcher(dict.fromkeys(ROWS, receive)))
    try:
        yield Running(life.broker, life.address, client, received)
    finally:
        await client.close()
        await life.stop()


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so. The test's own time limit ends what never is."""
    while not condition():
        await turn()


async def turn() -> None:
    await asyncio.sleep(0)
