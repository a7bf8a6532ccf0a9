"""Daemons as processes under a limit of the system, a client to each, and peers that only sit there."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any, cast

from pyromq.ambient import SystemClock
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from tests.broker.running import Running
from tests.machine.shortage import seen

PATIENCE_S = 60  # a test that hangs must end; nothing is measured
PATIENT = {"WAIT_TIME_MILLS_IN_SEND_QUEUE": 60_000, "MAX_LOOP_LAG_MS": 60_000}  # a busy machine is no overload
SMALL_FILES = {
    "COMMIT_LOG_FILE_BYTES": 1 << 20,
    "QUEUE_FILE_BYTES": 20 * 1000,
    "INDEX_SLOTS": 1000,
    "INDEX_ENTRIES": 4000,
    "TIMER_WHEEL_SLOTS": 20_000,
    "QUEUE_FLUSH_INTERVAL_MS": 20,
    **PATIENT,
    "CONNECTION_OPENING_SECONDS": 600,  # the idle peers of these tests stay
    "AUTO_CREATE_TOPIC_ENABLE": "true",
}


class Daemon(Running):
    """A process that serves, and one connection to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, address: str, client: RemotingClient, others: Sequence[str] = ()
    ) -> None:
        super().__init__(cast(Any, None), address, client, [])
        self.process = process
        self.others = others
        self._idle: list[IdlePeers] = []

    async def end(self) -> str:
        """A clean stop; returns what it wrote to its log."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(self.process.communicate(), PATIENCE_S)
        assert self.process.returncode == 0, errors.decode()
        return errors.decode()

    async def state(self) -> dict[str, Any]:
        """What `pyromq inspect` shows."""
        found: dict[str, Any] = json.loads(bytes((await self.call(RequestCode.INSPECT)).body))
        return found

    def idle_peers(self, port: int | None = None) -> IdlePeers:
        """At its own port, or at another one. They go at the latest when the daemon does, also where a test fails."""
        self._idle.append(IdlePeers(port or int(self.address.rpartition(":")[2])))
        return self._idle[-1]

    async def let_go(self) -> None:
        for idle in self._idle:
            await idle.go()

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Running]:
        """A client that connects now."""
        async with RemotingClient(clock=SystemClock(), rng=random.Random(2)) as client:
            yield Running(cast(Any, None), self.address, client, [])


async def start(
    *arguments: str, limits: dict[int, int], environment: Mapping[str, object] | None = None
) -> asyncio.subprocess.Process:
    """`limits`: of the system, as soft and hard ones."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYROMQ_")}

    def limit() -> None:
        for which, value in limits.items():
            resource.setrlimit(which, (value, value))

    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=inherited | {key: str(value) for key, value in (environment or {}).items()},
        preexec_fn=limit,
    )


@asynccontextmanager
async def _serving(
    process: asyncio.subprocess.Process, ready: str = r"pyromq \w+ ready on (\S+)"
) -> AsyncIterator[Daemon]:
    """`ready`: its first line, with the addresses; the last one is the daemon's own."""
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)).decode()
        found = re.match(ready, line)
        if found is None:
            _, errors = await process.communicate()
            raise AssertionError(f"it did not start: {line}{errors.decode()}")
        *others, address = found.groups()
        async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client:
            daemon = Daemon(process, address, client, others)
            try:
                yield daemon
            finally:
                await daemon.let_go()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@asynccontextmanager
async def broker(
    folder: Path, kernel: str, limits: dict[int, int], fast_port: int = 0, **settings: object
) -> AsyncIterator[Daemon]:
    """Settings by their names in the environment, without the prefix."""
    named = SMALL_FILES | {"FAST_LISTEN_PORT": fast_port} | settings
    environment: dict[str, object] = {f"PYROMQ_BROKER_{name}": value for name, value in named.items()}
    process = await start(
        *("broker", "--listen", "127.0.0.1:0", "--store-path-root-dir", str(folder)),
        limits=limits,
        environment=environment | {"PYROMQ_KERNEL": kernel},
    )
    async with _serving(process) as daemon:
        yield daemon


@asynccontextmanager
async def name_server(folder: Path, limits: dict[int, int], **settings: object) -> AsyncIterator[Daemon]:
    named = {"CONNECTION_OPENING_SECONDS": 600} | settings
    process = await start(
        *("namesrv", "--listen", "127.0.0.1:0", "--kv-config-path", str(folder / "kvConfig.json")),
        limits=limits,
        environment={f"PYROMQ_NAMESRV_{name}": value for name, value in named.items()},
    )
    async with _serving(process) as daemon:
        yield daemon


@asynccontextmanager
async def both(folder: Path, limits: dict[int, int]) -> AsyncIterator[tuple[str, Daemon]]:
    """`pyromq up`: the name server's address, and the broker."""
    process = await start(
        *("up", "--data", str(folder), "--namesrv-port", "0", "--broker-port", "0"),
        limits=limits,
        environment={
            "PYROMQ_BROKER_CONNECTION_OPENING_SECONDS": 600,
            "PYROMQ_NAMESRV_CONNECTION_OPENING_SECONDS": 600,
        }
        | {f"PYROMQ_BROKER_{name}": value for name, value in PATIENT.items()},
    )
    async with _serving(process, "PyroMQ is up. Name server ([^,]+), broker ([^ ]+) ") as daemon:
        yield daemon.others[0], daemon


def free_port() -> int:
    """Return one below the range that the system hands out by itself: no connection takes it before the daemon does."""
    while True:
        port = random.randrange(12_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


_SOURCES = cycle(f"127.0.0.{number}" for number in range(2, 250))


class IdlePeers:
    """Connections that say nothing. The server may close them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def come(self, count: int, saying: bytes = b"") -> None:
        for number in range(count):
            if number % 2_000 == 0:
                source = next(_SOURCES)  # one address has not ports enough for all
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(source, 0))
            writer.write(saying)
            self._streams.append((reader, writer))

    async def left(self, expected: int) -> int:
        """How many the server keeps, once it has closed all beyond those that are expected to stay."""
        await seen(lambda: self._open <= expected)  # nobody reads: a stream notes its end by itself
        return self._open

    @property
    def _open(self) -> int:
        return sum(not (reader.at_eof() or reader.exception()) for reader, _ in self._streams)

    async def go(self) -> None:
        for _, writer in self._streams:
            writer.transport.abort()
        self._streams.clear()


async def sent_all(by: Running, topics: Sequence[str], queues: int = 4) -> None:
    """A message to each queue, each of them answered with success."""
    for topic in topics:
        for queue in range(queues):
            answer = await by.send(topic, b"x" * 100, queue)
            assert answer.code == 0, answer.remark
