"""`pyromq up --replicas N`: one broker name as an elected set on this machine, with an etcd that is named or started.

For trying things: all replicas share this machine's power and disk, so a set here keeps no more than one broker does.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ... import logs
from ...ambient import Clock
from ...coordination.etcd import EtcdCoordination
from ...coordination.etcd_settings import EtcdSettings
from ...errors import CallFailed, ConfigError, PyroError
from .brokers import MOST_PORT, PORT_STEP, BrokerHome, next_port

log = logs.get("pyromq.up")

NAME = "broker-a"
LEAST, MOST = 2, 7
ENDPOINTS = "PYROMQ_BROKER_ETCD_ENDPOINTS"
START_S = 20.0
STOP_S = 5.0
PAUSE_S = 1.0


def replica_homes(data: Path, count: int, host: str, port: int, grpc_port: int | None, etcd: str) -> list[BrokerHome]:
    """Return the homes of replica-1, replica-2 ... ConfigError if the folder has other stores."""
    if not LEAST <= count <= MOST:
        raise ConfigError(f"--replicas {count}: from {LEAST} to {MOST}; three is what a set wants")
    for option, first in (("--broker-port", port), ("--grpc-port", grpc_port or 0)):
        if first > 0 and first + (count - 1) * PORT_STEP > MOST_PORT:
            raise ConfigError(
                f"{option} {first} with --replicas {count}: ports are {PORT_STEP} apart, and end too high"
            )
    names = [f"replica-{number}" for number in range(1, count + 1)]
    others = [one.name for one in data.glob("*") if one.name == "store" or one.name.startswith("broker-")]
    others += [one.name for one in data.glob("replica-*") if one.name not in names]
    if others:
        raise ConfigError(
            f"{data} also holds {', '.join(sorted(others))}, whose messages would not be served: start it as before, "
            "or name another folder with --data"
        )
    return [
        BrokerHome(
            NAME,
            data / folder,
            host,
            next_port(port, number),
            grpc_port and next_port(grpc_port, number),
            {ENDPOINTS: etcd},
        )
        for number, folder in enumerate(names)
    ]


@asynccontextmanager
async def etcd_beside(named: str | None, data: Path, clock: Clock) -> AsyncIterator[str]:
    """Have etcd for the time of a block: the one that is named, or one that is started with its data in the folder.

    Yields its addresses. ConfigError: none is named, and none is installed. PyroError: it does not serve."""
    if named is not None:
        yield named
        return
    program = shutil.which("etcd")
    if program is None:
        raise ConfigError(
            "an elected set needs etcd, and none is installed: apt-get install etcd-server, or name one that runs by "
            "--etcd http://HOST:2379"
        )
    client, peer = (f"http://127.0.0.1:{port}" for port in _free_ports())
    command = [
        program,
        *("--name", "pyromq", "--data-dir", str(data / "etcd"), "--initial-cluster", f"pyromq={peer}"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--logger", "zap"),
    ]
    process = await _run(command)
    watch: asyncio.Task[None] | None = None
    try:
        await _serves(client, process, clock)
        watch = asyncio.create_task(_keep_running(process, command, clock))
        yield client
    finally:
        if watch is None:
            await _end(process, clock)
        else:
            watch.cancel()
            await asyncio.wait([watch])


async def _run(command: Sequence[str]) -> Process:
    return await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)


async def _keep_running(process: Process, command: Sequence[str], clock: Clock) -> None:
    """Start etcd again whenever it ends, until this task is cancelled; then end it."""
    try:
        while True:
            code = await process.wait()
            log.error("etcd ended and is started again: nobody can be elected meanwhile", code=code)
            await clock.sleep(PAUSE_S)
            process = await _run(command)
    finally:
        await _end(process, clock)


def _free_ports() -> list[int]:
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in (one, other)]


async def _serves(endpoint: str, process: Process, clock: Clock) -> None:
    """Wait until it answers. PyroError: it has ended, or does not within its time."""
    deadline = clock.monotonic() + START_S
    async with EtcdCoordination(EtcdSettings(endpoints=(endpoint,)), clock) as coordination:
        while clock.monotonic() < deadline and process.returncode is None:
            with suppress(CallFailed):
                await coordination.read("/pyromq/")
                return
            await clock.sleep(0.1)
    raise PyroError("etcd does not serve: run `etcd --data-dir` on its folder by hand, which says why")


async def _end(process: Process, clock: Clock) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with clock.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
