"""What a request costs the server: an echoing handler, as a ratio to a bare asyncio.Protocol echo in the same run.

    python bench/transport.py [seconds per cell]

The servers run in a process of their own and tell their CPU time, so that a busy machine changes little; the
load comes from blocking sockets in this process. The bare echo gives back bytes without looking at them: it is the
floor of the event loop and the sockets, not of the protocol.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection as Pipe

from pyromq.ambient import SystemClock
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.loop import loop_factory
from pyromq.transport.server import Server

CODE = int(RequestCode.GET_MAX_OFFSET)
REQUEST = Command(code=CODE, fields={"topic": "Bench", "queueId": "3"}, body=bytes(128))
DEPTHS = (1, 16, 256)


def echo(request: Request) -> Reply:
    return Reply(fields=request.command.fields, body=request.command.body)


async def echo_later(request: Request) -> Reply:
    return echo(request)


class BareEcho(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


async def serve(pipe: Pipe) -> None:
    """Three servers on one loop. Each message on the pipe is answered with the CPU seconds so far; None ends it."""
    bare = await asyncio.get_running_loop().create_server(BareEcho, "127.0.0.1", 0)
    ports = [bare.sockets[0].getsockname()[1]]
    for handler in (echo, echo_later):
        server = Server(Dispatcher({CODE: handler}), clock=SystemClock())
        ports.append(int((await server.start("127.0.0.1", 0)).rpartition(":")[2]))
    pipe.send(ports)
    while await asyncio.to_thread(pipe.recv):
        pipe.send(time.process_time())


def run_servers(pipe: Pipe, loop_name: str) -> None:
    with asyncio.Runner(loop_factory=loop_factory(loop_name)) as runner:
        runner.run(serve(pipe))


def drive(port: int, depth: int, seconds: float) -> int:
    """How many requests were answered, with `depth` of them in flight on one connection."""
    one, done, until = encode_frame(REQUEST), 0, time.perf_counter() + seconds
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(one)
        answer_bytes = len(peer.recv(1 << 16)) * depth
        while time.perf_counter() < until:
            peer.sendall(one * depth)
            got = 0
            while got < answer_bytes:
                got += len(peer.recv(1 << 20))
            done += depth
    return done


async def drive_client(port: int, depth: int, seconds: float) -> int:
    """The same with our own client as the load."""
    done, until = 0, time.perf_counter() + seconds

    async def call_on(client: RemotingClient) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await client.call(f"127.0.0.1:{port}", Command(code=CODE, body=bytes(128)), timeout_s=30)
            done += 1

    async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client:
        await asyncio.gather(*(call_on(client) for _ in range(depth)))
    return done


def measure(loop_name: str, seconds: float) -> None:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_servers, args=(there, loop_name))
    process.start()
    bare, direct, later = here.recv()

    def server_cpu() -> float:
        here.send(True)
        return float(here.recv())

    def server_us(load: Callable[[], int]) -> float:
        before = server_cpu()
        done = load()
        return (server_cpu() - before) / done * 1e6

    print(f"\n{loop_name}: CPU of the server in us per request (times the bare echo)")
    print(f"{'in flight':>10}{'bare echo':>12}{'handler':>20}{'async handler':>20}")
    for depth in DEPTHS:
        floor = server_us(partial(drive, bare, depth, seconds))
        cells = [server_us(partial(drive, port, depth, seconds)) for port in (direct, later)]
        print(f"{depth:>10}{floor:12.2f}" + "".join(f"{cell:12.2f} ({cell / floor:5.1f})" for cell in cells))
    print("our client: its own CPU in us per call")
    for depth in DEPTHS:
        before = time.process_time()
        with asyncio.Runner(loop_factory=loop_factory(loop_name)) as runner:
            done = runner.run(drive_client(direct, depth, seconds))
        print(f"{depth:>10}{(time.process_time() - before) / done * 1e6:12.2f}")
    here.send(None)
    process.join()


if __name__ == "__main__":
    each_s = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for name in ("asyncio", "uvloop"):
        measure(name, each_s)
