"""CPU of a received buffer of plain sends or pulls, inside one process: no socket, no load generator, files on tmpfs.

    [PYROMQ_KERNEL=python] python bench/feed.py [--of sends|batches|pulls] [--signed] [--folder /dev/shm]
        [--seconds 2] [--profile]

A batch has 32 messages of 128 bytes, each with its own key; a pull asks for 32, from files that are not on tmpfs.
`--signed`: authentication and authorisation are on, and each request is signed by the same user; `feed` alone.

`feed` is the call of `kernel/seam.py` alone; `receive` is what transport does with the bytes besides: the protocol's
buffer, the inbox, the answer handed to a stream that drops it. Thread CPU time, least and median of many rounds: the
machine may be shared. On the Python kernel `receive` alone: it answers in later turns, which count too.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pyromq.access.signatures import Signer
from pyromq.access.users import User, UserType
from pyromq.ambient import SystemClock
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.config import Loaded
from pyromq.kernel.choice import kernel_name
from pyromq.kernel.seam import as_fed
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.frame import decode_frames, encode_frame
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import run_at_once
from pyromq.transport.connection.connection import Connection
from pyromq.transport.loop import loop_factory

ROUND = 256  # requests between two looks at the clock, at least
QUEUES = 4
BATCH = 32
PULLED = 20_000  # messages of each queue that there are to pull
USER, SECRET = "user-500", "a secret of the bench"
SECURED: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": f'{{"username":"boss","password":"{SECRET}"}}',
}


def frame(number: int, size: int = 128) -> bytes:
    fields = {
        "a": "Group",
        "b": "Bench",
        "c": "TBW102",
        "d": "4",
        "e": str(number % QUEUES),
        "f": "0",
        "g": "1794769118114",
        "h": "0",
        "i": f"UNIQ_KEY\x01C000020240734E0E2F2A4C2B{number:08X}\x02WAIT\x01true\x02TAGS\x01TagA\x02",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return encode_frame(Command(code=310, opaque=number, version=455, fields=fields, body=bytes(size)))


def batch(number: int) -> bytes:
    messages = []
    for one in range(number * BATCH, (number + 1) * BATCH):
        properties = f"UNIQ_KEY\x01C000020240734E0E2F2A4C2B{one:08X}\x02TAGS\x01TagA\x02".encode()
        rest = bytes(12) + (128).to_bytes(4, "big") + bytes(128) + len(properties).to_bytes(2, "big") + properties
        messages.append((4 + len(rest)).to_bytes(4, "big") + rest)
    request = decode_frames(frame(number))[0][0]
    request.code, request.body = 320, b"".join(messages)
    request.fields["m"] = "true"
    return encode_frame(request)


def pull(number: int) -> bytes:
    fields = {
        "consumerGroup": "Group",
        "topic": "Bench",
        "queueId": str(number % QUEUES),
        "queueOffset": str(number // QUEUES * BATCH % (PULLED - BATCH)),
        "maxMsgNums": str(BATCH),
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return encode_frame(Command(code=11, opaque=number, version=455, fields=fields))


class Kind(NamedTuple):
    """What buffers hold, how many of it, and the messages that one stands for."""

    make: Callable[[int], bytes]
    sizes: tuple[int, ...]
    messages: int


KINDS = {"sends": Kind(frame, (1, 16, 256), 1), "batches": Kind(batch, (1, 4, 16), BATCH)}
KINDS["pulls"] = Kind(pull, (1, 4), BATCH)


def signed(request: bytes) -> bytes:
    (command,), _, _ = decode_frames(request)
    Signer(USER, SECRET).sign(command)
    return encode_frame(command)


class Sink(asyncio.Transport):
    """Takes answers and forgets them."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50001)})
        self.written = 0

    def write(self, data: Any) -> None:
        self.written += len(data)

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


async def timed(act: Callable[[bytes], None], kind: Kind, size: int, seconds: float) -> tuple[float, float]:
    """Microseconds of CPU a buffer of `size` requests: least and median of the rounds."""
    numbers, rounds = iter(range(1 << 31)), []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        made = (kind.make(number) for number in numbers)
        buffers = [b"".join(islice(made, size)) for _ in range(max(4, ROUND // size // kind.messages))]
        start = time.thread_time()
        for one in buffers:
            act(one)
        await asyncio.sleep(0)
        rounds.append((time.thread_time() - start) / len(buffers) * 1e6)
    return min(rounds), statistics.median(rounds)


class Served(NamedTuple):
    """A broker with a topic, and two ways to hand it bytes."""

    feed: Callable[[bytes], None]
    receive: Callable[[bytes], None]
    left: list[int]  # bytes of each buffer that the kernel did not take


@asynccontextmanager
async def served(folder: Path, is_signed: bool = False) -> AsyncIterator[Served]:
    settings: dict[str, Any] = SECURED if is_signed else {}
    config = BrokerConfig(
        store_path_root_dir=folder, bind_address="127.0.0.1", listen_port=0, max_loop_lag_ms=1 << 40, **settings
    )
    broker = await Broker.open(
        Loaded(config), clock=SystemClock(), rng=random.Random(1), disk=RealDisk(folder, create=True),
        run_blocking=run_at_once,
    )  # fmt: skip
    if is_signed:
        broker.base.access.table.directory.create(User(USER, (SECRET,), UserType.SUPER))
    await broker.start()
    broker.topics.put(TopicConfig(topic_name="Bench", read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    sink = Sink()
    peer = broker.servers[0].attach(sink)
    assert isinstance(peer, Connection)
    owner = peer._owner
    left: list[int] = []

    def receive(data: bytes) -> None:
        left_over = memoryview(data)  # more than a connection's buffer holds comes in pieces, as from a socket
        while left_over:
            room = peer.get_buffer(-1)
            size = min(len(room), len(left_over))
            room[:size] = left_over[:size]
            peer.buffer_updated(size)
            left_over = left_over[size:]

    def feed(data: bytes) -> None:
        view = memoryview(data)
        used = as_fed(owner.feed(peer, view), view).used
        if used < len(data):  # the end of a file
            receive(data[used:])
            left.append(len(data) - used)

    for number in range(QUEUES):
        receive(signed(frame(number)) if is_signed else frame(number))  # queues have to be there
        await asyncio.sleep(0.01)
    yield Served(feed, receive, left)
    peer.abort("done")
    peer.connection_lost(None)
    await broker.stop()


async def measure(folder: Path, chosen: argparse.Namespace) -> None:
    async with served(folder, chosen.signed) as (feed, receive, left):
        if chosen.of == "pulls":
            for number in range(PULLED // BATCH * QUEUES):
                receive(signed(batch(number)) if chosen.signed else batch(number))
                await asyncio.sleep(0)
        kind = KINDS[chosen.of]
        if chosen.signed:
            plain = kind.make
            kind = kind._replace(make=lambda number: signed(plain(number)))
        if chosen.profile:
            await profile(feed if kernel_name() == "native" else receive, kind)
        else:
            acts = (receive,) if kernel_name() == "python" else (feed,) if chosen.signed else (feed, receive)
            print(f"{chosen.of:>8} {'call':>8} {'least us':>9} {'median us':>10} {'us a message':>13}")
            for size in kind.sizes:
                for act in acts:
                    least, middle = await timed(act, kind, size, chosen.seconds)
                    each = middle / size / kind.messages
                    print(f"{size:8d} {act.__name__:>8} {least:9.1f} {middle:10.1f} {each:13.2f}", flush=True)
        if left:
            print(f"{len(left)} buffers were not taken whole by the kernel")


async def profile(act: Callable[[bytes], None], kind: Kind) -> None:
    buffers = [kind.make(number) for number in range(20_000 // kind.messages)]
    profiler = cProfile.Profile()
    profiler.enable()
    for one in buffers:
        act(one)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", default="/dev/shm" if Path("/dev/shm").is_dir() else None)
    options.add_argument("--seconds", type=float, default=2, help="of each line")
    options.add_argument("--of", choices=KINDS, default="sends", help="what the buffers hold")
    options.add_argument("--signed", action="store_true", help="requests are signed, and judged")
    options.add_argument("--profile", action="store_true", help="calls of Python below a buffer of one request")
    chosen = options.parse_args()
    if chosen.of == "pulls" and chosen.folder == "/dev/shm":
        chosen.folder = None  # tmpfs cannot be asked to read without waiting, so Python would serve them
    with (
        tempfile.TemporaryDirectory(dir=chosen.folder) as folder,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        runner.run(measure(Path(folder), chosen))


if __name__ == "__main__":
    main()
