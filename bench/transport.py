"""Requests per second through the server with a handler that echoes, as a ratio to a bare asyncio.Protocol echo.

    python bench/transport.py [seconds per cell]

The servers run in a process of their own, the load comes from blocking sockets in this one, so that both cores of a small
machine are used and the load generator costs the same for both. The bare echo does no more than give back the bytes: it
is the floor of the event loop, not of the protocol.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe

from pyromq.ambient import SystemClock
from pyromq.model.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.transport.client import Client
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.loop import loop_factory
from pyromq.transport.server import Server

CODE = int(RequestCode.GET_MAX_OFFSET)
REQUEST = Command(code=CODE, fields={"topic": "Bench", "queueId": "3"}, body=bytes(128))


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
    """The three servers of one loop; ends when the pipe is written to."""
    ports = []
    bare = await asyncio.get_running_loop().create_server(BareEcho, "127.0.0.1", 0)
    ports.append(bare.sockets[0].getsockname()[1])
    for handler in (echo, echo_later):
        server = Server(Dispatcher({CODE: handler}), clock=SystemClock())
        ports.append(int((await server.start("127.0.0.1", 0)).rpartition(":")[2]))
    pipe.send(ports)
    await asyncio.get_running_loop().run_in_executor(None, pipe.recv)


def run_servers(pipe: Pipe, loop_name: str) -> None:
    with asyncio.Runner(loop_factory=loop_factory(loop_name)) as runner:
        runner.run(serve(pipe))


def drive(port: int, depth: int, seconds: float) -> float:
    """Requests per second with `depth` of them in flight on one connection."""
    batch = encode_frame(REQUEST) * depth
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one = _exchange(peer, encode_frame(REQUEST), None)
        rounds, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            _exchange(peer, batch, one * depth)
            rounds += 1
        return rounds * depth / passed


def _exchange(peer: socket.socket, data: bytes, answer_bytes: int | None) -> int:
    """Send and read the answer; its size if it is not known."""
    peer.sendall(data)
    got = len(peer.recv(1 << 20))
    while answer_bytes is not None and got < answer_bytes:
        got += len(peer.recv(1 << 20))
    return got


async def drive_client(port: int, depth: int, seconds: float) -> float:
    """The same with our own client as the load."""
    done = 0
    stop_at = time.perf_counter() + seconds

    async def one_caller(client: Client) -> None:
        nonlocal done
        while time.perf_counter() < stop_at:
            await client.call(f"127.0.0.1:{port}", Command(code=CODE, body=bytes(128)), timeout_s=30)
            done += 1

    began = time.perf_counter()
    async with Client(clock=SystemClock(), rng=random.Random(1)) as client:
        await asyncio.gather(*(one_caller(client) for _ in range(depth)))
        return done / (time.perf_counter() - began)


def measure(loop_name: str, seconds: float) -> None:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_servers, args=(there, loop_name))
    process.start()
    bare, direct, later = here.recv()
    print(f"\n{loop_name}: requests per second (ratio to the bare echo)")
    print(f"{'in flight':>10} {'bare echo':>12} {'handler':>20} {'async handler':>20} {'our client too':>20}")
    for depth in (1, 16, 256):
        floor = drive(bare, depth, seconds)
        cells: list[Callable[[], float]] = [
            lambda depth=depth: drive(direct, depth, seconds),
            lambda depth=depth: drive(later, depth, seconds),
            lambda depth=depth: _on_loop(loop_name, direct, depth, seconds),
        ]
        rates = [cell() for cell in cells]
        row = "".join(f" {rate:11,.0f} ({rate / floor:4.2f})  " for rate in rates)
        print(f"{depth:>10} {floor:12,.0f}{row}")
    here.send("stop")
    process.join()


def _on_loop(loop_name: str, port: int, depth: int, seconds: float) -> float:
    with asyncio.Runner(loop_factory=loop_factory(loop_name)) as runner:
        return runner.run(drive_client(port, depth, seconds))


if __name__ == "__main__":
    each_s = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for name in ("asyncio", "uvloop"):
        measure(name, each_s)
