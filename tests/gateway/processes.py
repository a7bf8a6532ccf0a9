"""Gateways as processes of their own, and clients that load them over real sockets, each call made once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.proxy.methods import PATH
from tests.interop.peers.process import Program
from tests.proxy.calling import METADATA, message


class GatewayProcess:
    """`pyromq proxy` on a loopback port, ready when constructed."""

    def __init__(self, home: Path, name_server: str, *words: str, port: int = 0) -> None:
        home.mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "proxy", "-n", name_server]
        command += ["--listen", f"127.0.0.1:{port}", "--remoting-listen-port", "-1", *words]
        self.program = Program(command, name="pyromq proxy", env={"HOME": str(home)}, cwd=home)
        self.endpoint = self.program.wait_for(r"pyromq proxy ready on (127\.0\.0\.1:[1-9]\d*)")[1]

    def stop(self) -> int:
        self.program.signal(signal.SIGTERM)
        return self.program.wait()

    def kill(self) -> None:
        self.program.kill()


@dataclass
class Load:
    """What senders have seen: bodies that were acknowledged, and what else calls ended with."""

    acked: set[bytes] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, body: bytes, fault: str) -> None:
        if fault:
            self.faults.append(fault)
        else:
            self.acked.add(body)
        self._moved.set()

    async def more(self, count: int) -> None:
        """Wait until so many more messages are acknowledged than now."""
        wanted = len(self.acked) + count
        while len(self.acked) < wanted:
            self._moved.clear()
            async with asyncio.timeout(60):
                await self._moved.wait()


@asynccontextmanager
async def load(endpoint: str, topic: str, senders: int = 4) -> AsyncIterator[Load]:
    """Let clients send to a topic, each over a connection of its own and one call after another, for a while."""
    seen, ends = Load(), asyncio.Event()

    async def send(sender: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200)]
        metadata = [*(METADATA | {"x-mq-client-id": f"sender-{sender}"}).items()]
        async with grpc.aio.insecure_channel(endpoint, options=options) as channel:
            call = channel.unary_unary(PATH + "SendMessage")
            number = 0
            while not ends.is_set():
                number += 1
                body = b"%d-%d" % (sender, number)
                request = v2.SendMessageRequest(messages=[message(topic, body)])
                try:
                    data = await call(request.SerializeToString(), metadata=metadata, timeout=5)
                    status = v2.SendMessageResponse.FromString(data).status
                    seen.note(body, "" if status.code == Code.OK else f"{status.code} {status.message}")
                except grpc.aio.AioRpcError as fault:
                    seen.note(body, f"{fault.code().name} {fault.details()}")
                if seen.faults and not (seen.acked and body in seen.acked):
                    await asyncio.sleep(0.02)  # a client that failed does not run in circles

    running = [asyncio.ensure_future(send(number)) for number in range(senders)]
    try:
        yield seen
    finally:
        ends.set()
        await asyncio.gather(*running)
