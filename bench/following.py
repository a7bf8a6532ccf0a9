"""What a slave's log costs: CPU of a message that comes in pieces of its master's log, beside recovery and a send.

    [PYROMQ_KERNEL=python] python bench/following.py [--messages 200000] [--rounds 3] [--folder /var/tmp]

A master's log of 4 topics with 4 queues each, 100 messages a millisecond, is given to a slave in pieces of 32 KiB (what
Java's master sends) and 256 KiB (what ours sends to ours). `recovery` is the same log found after a kill and dispatched
anew; `send feed` is the kernel's own append of such messages, in buffers of 256 sends. With `keys`, messages have a
unique id and a tag, as every client's have; without, nothing is indexed. Thread CPU time, the least of the rounds:
the machine may be shared. Compare ratios, not times.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.feed import Kind, frame, served, timed

from pyromq.ambient import SystemClock
from pyromq.kernel.choice import kernel_name
from pyromq.model.ids import pack_host
from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.transport.loop import loop_factory

HOST = pack_host("127.0.0.1", 10911)
CONFIG = StoreConfig()
TOPICS, QUEUES = 4, 4
A_MILLISECOND = 100
KEYS = b"UNIQ_KEY\x01C000020240734E0E2F2A4C2B%08X\x02WAIT\x01true\x02TAGS\x01TagA\x02"


def record(number: int, body: bytes, keyed: bool) -> Record:
    return Record(
        topic=f"BenchTopic{number % TOPICS}",
        queue_id=number // TOPICS % QUEUES,
        body=body,
        properties=KEYS % number if keyed else b"",
        born_timestamp=1_794_769_118_114,
        born_host=HOST,
        store_host=HOST,
    )


def fill(root: Path, messages: int, body: bytes, keyed: bool) -> int:
    """A master's store; the end of its log."""
    clock = ManualClock(1_794_769_118_114)
    store = MessageStore(RealDisk(root, create=True), CONFIG, clock)
    for first in range(0, messages, A_MILLISECOND):
        store.put([record(number, body, keyed) for number in range(first, first + A_MILLISECOND)])
        clock.step_wall(0.001)
    store.close()
    return store.commit_log.end


def pieces(root: Path, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The master's log as its stream brings it: a piece lies in one file."""
    for path in sorted((root / "commitlog").iterdir()):
        position, limit = int(path.name), min(int(path.name) + CONFIG.commit_log_file_bytes, end)
        with path.open("rb", buffering=0) as file:
            while position < limit:
                yield position, file.read(min(size, limit - position))
                position += size


def follow(master: Path, end: int, size: int, slave: Path) -> float:
    """Return the seconds of CPU that it takes; the first piece, which makes files and queues, is not counted."""
    store = MessageStore(RealDisk(slave, create=True), CONFIG, SystemClock())
    spent = 0.0
    for position, data in pieces(master, end, size):
        start = time.thread_time()
        store.following.take(position, data)
        spent += time.thread_time() - start if position else 0
    assert store.commit_log.end == end
    store.close()
    return spent


def recover(master: Path, end: int, slave: Path) -> float:
    shutil.copytree(master / "commitlog", slave / "commitlog")
    (slave / "abort").write_text("1 pyromq")
    disk = RealDisk(slave)
    start = time.thread_time()
    store = MessageStore(disk, CONFIG, SystemClock())
    spent = time.thread_time() - start
    assert store.commit_log.end == end
    store.close()
    return spent


async def send(size: int, seconds: float, folder: Path) -> float:
    """Microseconds of CPU a send, by the kernel's feed; the Python kernel answers in later turns, which count too."""
    async with served(folder) as broker:
        act = broker.feed if kernel_name() == "native" else broker.receive
        _, median = await timed(act, Kind(lambda number: frame(number, size), (256,), 1), 256, seconds)
    return median / 256


def sends(runner: asyncio.Runner, size: int, folder: Path) -> float:
    return runner.run(send(size, 1, folder))


def least(act: Callable[[Path], float], folder: Path | None, rounds: int) -> float:
    """The least of several runs, each in a folder of its own."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            found.append(act(Path(name)))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None, type=Path)
    options = parser.parse_args()
    rounds, folder = options.rounds, options.folder
    print(f"kernel: {kernel_name()}")
    print(f"{'body':>6} {'keys':>5} {'what':>17} {'us a message':>13} {'to a send':>10}")
    for size in (128, 1024):
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            sent = least(partial(sends, runner, size), folder, rounds)
        print(f"{size:6d} {'yes':>5} {'send feed':>17} {sent:13.2f} {1:10.2f}", flush=True)
        for keyed in (True, False):
            with tempfile.TemporaryDirectory(dir=folder) as name:
                master = Path(name)
                end = fill(master, options.messages, os.urandom(size), keyed)
                acts: dict[str, Callable[[Path], float]] = {
                    "follow 32 KiB": partial(follow, master, end, 32 << 10),
                    "follow 256 KiB": partial(follow, master, end, 256 << 10),
                    "recovery": partial(recover, master, end),
                }
                for what, act in acts.items():
                    each = least(act, folder, rounds) / options.messages * 1e6
                    says = "yes" if keyed else "no"
                    print(f"{size:6d} {says:>5} {what:>17} {each:13.2f} {each / sent:10.2f}", flush=True)


if __name__ == "__main__":
    main()
