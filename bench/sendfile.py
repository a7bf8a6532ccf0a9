"""What a master's CPU pays for a piece of its log to a slave: copied from the mapped file, or sent by sendfile.

    python bench/sendfile.py

Over loopback, to a process that reads as fast as it can. Each row twice. The stream is pieces with 12 bytes of header
each: sendfile needs a call of its own for these (MSG_MORE), which costs more than the copy that it saves.
"""

from __future__ import annotations

import mmap
import os
import socket
import tempfile
import time
from collections.abc import Callable

HEADER = b"h" * 12
FILE_BYTES = 64 << 20
MOST_BYTES, MOST_PIECES = 1 << 30, 200_000


def copied(stream: socket.socket, log: mmap.mmap, _: int, at: int, piece: int) -> None:
    stream.sendmsg([HEADER, log[at : at + piece]])


def by_sendfile(stream: socket.socket, _: mmap.mmap, file: int, at: int, piece: int) -> None:
    stream.send(HEADER, socket.MSG_MORE)
    os.sendfile(stream.fileno(), file, at, piece)


Way = Callable[[socket.socket, mmap.mmap, int, int, int], None]


def cpu_of(way: Way, piece: int, file: int, log: mmap.mmap) -> tuple[float, float]:
    """Return microseconds of CPU a piece, and MB a second."""
    count = min(MOST_PIECES, MOST_BYTES // piece)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as far:
        stream, _ = listening.accept()
        reader = os.fork()
        if reader == 0:
            stream.close()
            drain(far)
        far.close()
        began, cpu = time.monotonic(), time.process_time()
        for number in range(count):
            way(stream, log, file, number * piece % (FILE_BYTES - piece), piece)
        cpu, seconds = time.process_time() - cpu, time.monotonic() - began
        stream.close()
        os.waitpid(reader, 0)
    return cpu * 1e6 / count, count * piece / seconds / 1e6


def drain(stream: socket.socket) -> None:
    buffer = bytearray(1 << 20)
    while stream.recv_into(buffer):
        pass
    os._exit(0)


def main() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(1 << 20) * (FILE_BYTES >> 20))
        file.flush()
        with mmap.mmap(file.fileno(), 0) as log:
            for piece in (200, 2048, 32 << 10, 64 << 10):
                for name, way in (("copied", copied), ("sendfile", by_sendfile)) * 2:
                    cpu_us, rate = cpu_of(way, piece, file.fileno(), log)
                    print(f"{piece:6} bytes  {name:9}{cpu_us:6.2f} us a piece  {rate:6.0f} MB/s", flush=True)


if __name__ == "__main__":
    main()
