"""A whole broker on virtual time and a simulated disk: requests go straight to its dispatcher, hours pass at once.

The loops that carry messages run, see `pyromq.testing.in_process`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.broker.config import BrokerConfig
from pyromq.model.message import StoredMessage
from pyromq.protocol.command import Command
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import Record
from pyromq.store.files.disk import Disk
from pyromq.testing.clock import ManualClock
from pyromq.testing.in_process import InProcessBroker, virtual_loops
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Request, await_answer
from tests.broker.peers import FakePeer
from tests.broker.running import SMALL, Running
from tests.wire import decode_messages

QUIET = {"max_loop_lag_ms": 1 << 40}  # nothing measures the lag here, and hours pass in one turn
START_MS = 1_700_000_000_000


class Virtual(Running):
    """One life of a broker. `client` is who sends unless a test says otherwise."""

    def __init__(self, life: InProcessBroker, clock: ManualClock, disk: Disk) -> None:
        super().__init__(life.broker, life.address, RemotingClient(clock=clock, rng=random.Random(1)), [])
        self._life = life
        self.clock = clock
        self.disk = disk
        self.peer = FakePeer()
        self.sign: Callable[[Command], None] | None = None  # its own calls
        self._opaque = 0

    async def call(self, code: int, body: bytes = b"", **fields: object) -> Command:
        peer = self.peer
        self._opaque += 1
        texts = {
            name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in fields.items()
        }
        command = Command(code=code, opaque=self._opaque, version=peer.version, fields=texts, body=body)
        if self.sign is not None:
            self.sign(command)
        answer = self.broker.listeners.dispatchers["main"](Request(command, peer, self.clock.monotonic()))
        reply = await await_answer(answer)
        if reply is not None:
            return reply.to_command(command)
        while not (found := [sent for sent in peer.sent if sent.is_response and sent.opaque == command.opaque]):
            await self.clock.settle(1)
        return found[0]

    async def pulled(self, topic: str = "T", queue: int = 0, offset: int = 0, **extra: Any) -> list[StoredMessage]:
        return decode_messages((await self.pull(topic, queue, offset, **extra)).body)

    def stored(self, topic: str, queue: int = 0) -> list[Record]:
        """Every record of a queue, as it lies in the log."""
        found = self.broker.store.queues.get(topic, queue)
        if found is None:
            return []
        entries = [found.entry_at(offset) for offset in range(found.min_offset, found.readable_end)]
        records = [self.broker.store.reader.record_at(entry.position) for entry in entries if entry is not None]
        return [record for record in records if record is not None]

    def bodies(self, topic: str, queue: int = 0) -> list[str]:
        return [record.body.decode() for record in self.stored(topic, queue)]

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        self._life.check_loops()

    async def halt(self) -> None:
        await self._life.halt()


@asynccontextmanager
async def virtual_broker(
    folder: Path,
    disk: Disk | None = None,
    clock: ManualClock | None = None,
    *,
    killed: bool = False,
    tables_in_log: bool = False,
    **settings: Any,
) -> AsyncIterator[Virtual]:
    """`killed`: this life does not end with a stop; go on with `disk.kill()` or `disk.crash(seed)`."""
    clock = clock or ManualClock(START_MS)
    disk = disk or SimulatedDisk(now_ms=clock.now_ms)
    config = BrokerConfig(
        **(SMALL | QUIET | {"broker_name": "broker-a", "listen_port": 0, "store_path_root_dir": folder} | settings)
    )
    life = await InProcessBroker.start(
        config, clock=clock, disk=disk, loops=virtual_loops(), tables_in_log=tables_in_log
    )
    virtual = Virtual(life, clock, disk)
    await clock.settle()
    try:
        yield virtual
    finally:
        await life.halt()
        await virtual.client.close()
        await (life.kill() if killed else life.stop())


def properties(record: Record) -> dict[str, str]:
    """Without the CRC, which Java's records do not have by default."""
    return {name: value for name, value in decode_properties(record.properties).items() if name != "__CRC32#"}
