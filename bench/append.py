"""What an append costs, as a share of the work that no store can avoid, and how long it stalls beside a flush.

    python bench/append.py [--seconds 3] [--folder /var/tmp]

First table: messages of 128 bytes and 1 KB in bursts, by one thread: `floor` is encoding the records and copying the
bytes once (memcpy); `put` is the store, with queue and index entries. CPU time, so that a busy machine tells the same.
Second table: a burst every millisecond while a thread syncs the file every 100 ms, three ways of getting bytes into
the page cache. Third: writers that wait for their sync, against the machine's own fdatasync. Compare ratios, not times.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyromq.ambient import SystemClock
from pyromq.kernel.records import parse_delay_levels, place_burst
from pyromq.model.ids import pack_host
from pyromq.protocol.record import Record
from pyromq.store.config import FlushMode, StoreConfig
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore

HOST = pack_host("127.0.0.1", 10911)
DELAYS = parse_delay_levels("1s")
FILE_BYTES = 256 << 20


def burst(count: int, body: bytes, first: int) -> list[Record]:
    return [
        Record(
            topic="BenchTopic",
            queue_id=number % 4,
            body=body,
            properties=b"UNIQ_KEY\x01C000020240734E0E2F2A4C2B%08X\x02WAIT\x01true\x02TAGS\x01TagA\x02" % number,
            born_timestamp=1_794_769_118_114,
            born_host=HOST,
            store_host=HOST,
        )
        for number in range(first, first + count)
    ]


def cpu_per_message(act: Callable[[list[Record]], object], body: bytes, size: int, seconds: float) -> float:
    """Microseconds of CPU a message; making the bursts is not counted."""
    spent, messages = 0.0, 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        bursts = [burst(size, body, messages + at) for at in range(0, max(size, 1024), size)]
        start = time.thread_time()
        for records in bursts:
            act(records)
        spent += time.thread_time() - start
        messages += len(bursts) * size
    return spent / messages * 1e6


def append_table(folder: Path, seconds: float) -> None:
    print(f"{'body':>6} {'burst':>6} {'floor us':>9} {'put us':>9} {'share':>6}")
    copy = bytearray(1 << 20)

    def floor(records: list[Record]) -> None:
        buffers, _ = place_burst(records, 0, 1, DELAYS, True)
        at = 0
        for raw in buffers:
            copy[at : at + len(raw)] = raw
            at += len(raw)

    for body in (bytes(128), bytes(1024)):
        for size in (1, 16, 256):
            store = MessageStore(
                RealDisk(folder / "append", create=True), StoreConfig(commit_log_file_bytes=FILE_BYTES), SystemClock()
            )
            least = cpu_per_message(floor, body, size, seconds / 4)
            cost = cpu_per_message(store.put, body, size, seconds / 4)
            store.close()
            shutil.rmtree(folder / "append")
            print(f"{len(body):6d} {size:6d} {least:9.2f} {cost:9.2f} {least / cost:6.2f}")


def stall_table(folder: Path, seconds: float) -> None:
    """A burst of 54 records of 300 bytes every millisecond: 16 MB/s, open loop."""
    print(f"\n{'append by':>28} {'mean us':>8} {'longest ms':>11} {'over 2 ms':>10}")
    data = os.urandom(54 * 300)
    for name in ("pwrite", "mapping", "mapping, written ahead"):
        path = folder / "stall"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        length = 64 << 20
        os.posix_fallocate(descriptor, 0, length)
        if name == "mapping, written ahead":
            for at in range(0, length, 1 << 20):
                os.pwrite(descriptor, bytes(1 << 20), at)
        os.fsync(descriptor)
        mapping = mmap.mmap(descriptor, length)
        stop = threading.Event()

        def flush(descriptor: int = descriptor, stop: threading.Event = stop) -> None:
            while not stop.wait(0.1):
                os.fdatasync(descriptor)

        flusher = threading.Thread(target=flush)
        flusher.start()
        waits = []
        at, due = 0, time.perf_counter()
        end = due + seconds
        while due < end and at + len(data) < length:
            while time.perf_counter() < due:
                pass
            start = time.perf_counter()
            if name == "pwrite":
                os.pwritev(descriptor, [data], at)
            else:
                mapping[at : at + len(data)] = data
            waits.append(time.perf_counter() - start)
            at += len(data)
            due += 0.001
        stop.set()
        flusher.join()
        mapping.close()
        os.close(descriptor)
        path.unlink()
        mean, late = sum(waits) / len(waits) * 1e6, sum(wait > 2e-3 for wait in waits)
        print(f"{name:>28} {mean:8.1f} {max(waits) * 1e3:11.2f} {late:10d}")


def sync_rate(folder: Path, seconds: float) -> float:
    """What the machine itself can do: write 1 KB, fdatasync, again."""
    path = folder / "rate"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, 64 << 20)
    os.fsync(descriptor)
    count, at, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        os.pwrite(descriptor, bytes(1100), at)
        os.fdatasync(descriptor)
        at = (at + 1100) % (63 << 20)
        count += 1
    os.close(descriptor)
    path.unlink()
    return count / seconds


async def acked_per_second(folder: Path, writers: int, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool:
        store = MessageStore(
            RealDisk(folder / "sync", create=True),
            StoreConfig(commit_log_file_bytes=FILE_BYTES, flush_mode=FlushMode.SYNC),
            SystemClock(),
            run_blocking=lambda call: loop.run_in_executor(pool, call),
        )
        running = asyncio.create_task(store.run())
        acked = 0
        end = time.monotonic() + seconds

        async def write(number: int) -> None:
            nonlocal acked
            while time.monotonic() < end:
                places = store.put(burst(1, bytes(1024), number))
                await store.readable.reached(places[-1].end)
                acked += 1

        await asyncio.gather(*(write(number) for number in range(writers)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        store.close()
    shutil.rmtree(folder / "sync")
    return acked / seconds


def sync_table(folder: Path, seconds: float) -> None:
    print(f"\n{'writers':>8} {'acked/s':>9} {'fdatasync/s':>12} {'acks per sync of the machine':>29}")
    for writers in (1, 64):
        rate = sync_rate(folder, seconds / 2)
        acked = asyncio.run(acked_per_second(folder, writers, seconds))
        print(f"{writers:8d} {acked:9.0f} {rate:12.0f} {acked / rate:29.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="about how long each line may take")
    parser.add_argument("--folder", default=None, help="where to write; a file system in memory shows nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        append_table(Path(name), options.seconds)
        stall_table(Path(name), options.seconds)
        sync_table(Path(name), options.seconds)


if __name__ == "__main__":
    main()
