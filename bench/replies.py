"""A pull's reply of 32 records: joined and written at once, or handed to the loop as many buffers?

PYTHONPATH=. python bench/replies.py        CPU of both ends together, on the loop that the broker runs on
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pyromq.transport.loop import loop_factory

RECORDS = 32
HEAD = b"h" * 200
ROUNDS, AT_ONCE = 1000, 5


class _Server(asyncio.Protocol):
    transport: Any  # uvloop's is none of asyncio's classes

    def connection_made(self, transport: Any) -> None:
        self.transport = transport


class _Client(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = bytearray(1 << 20)
        self.received = 0

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes


async def measure(server: _Server, client: _Client, record_bytes: int, joined: bool) -> float:
    """Microseconds of CPU a reply."""
    records = [bytes(record_bytes) for _ in range(RECORDS)]
    wanted = client.received
    began = time.process_time()
    for _ in range(ROUNDS):
        for _ in range(AT_ONCE):
            if joined:
                server.transport.write(b"".join((HEAD, *records)))
            else:
                server.transport.writelines([HEAD, *records])
        wanted += AT_ONCE * (len(HEAD) + RECORDS * record_bytes)
        while client.received < wanted:  # noqa: ASYNC110 - an event would be part of the cost
            await asyncio.sleep(0)
    return (time.process_time() - began) / (ROUNDS * AT_ONCE) * 1e6


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = _Server()
    listener = await loop.create_server(lambda: server, "127.0.0.1", 0)
    _, client = await loop.create_connection(_Client, "127.0.0.1", listener.sockets[0].getsockname()[1])
    await asyncio.sleep(0.05)
    print(f"{'record':>8} {'joined':>10} {'gathered':>10} {'ratio':>7}   us of CPU a reply of {RECORDS}")
    for record_bytes in (200, 1100, 8000):
        joined = min([await measure(server, client, record_bytes, True) for _ in range(3)])
        gathered = min([await measure(server, client, record_bytes, False) for _ in range(3)])
        print(f"{record_bytes:>8} {joined:>10.1f} {gathered:>10.1f} {gathered / joined:>7.2f}")
    listener.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())
