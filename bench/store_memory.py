"""What a store holds in memory as it grows: it should follow the number of queues, and not that of messages.

    python bench/store_memory.py [--messages 10000000] [--queues 50000] [--folder /var/tmp]

First every queue gets a message (`bytes a queue` is what that took), then all messages are put, flushed as they come.
`grown` is what the process holds more than before the messages; a reader looks at one queue from end to end. Then the
store is closed and opened again. Ten million messages take some minutes and 2.5 GB of disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from pyromq.ambient import SystemClock
from pyromq.model.ids import pack_host
from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore

HOST = pack_host("127.0.0.1", 10911)
CONFIG = StoreConfig(commit_log_file_bytes=256 << 20, index_slots=500_000, index_entries=2_000_000)
BURST = 500
FLUSH_EVERY = 100  # bursts


def resident() -> int:
    """Bytes of this process that are its own: file pages in the cache are not."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this kernel does not say RssAnon")


def record(number: int, queue: int) -> Record:
    return Record(
        topic=f"Topic{queue // 8}",
        queue_id=queue % 8,
        body=b"0123456789abcdef",
        properties=b"UNIQ_KEY\x01C000020240734E0E2F2A4C2B%08X\x02" % number,
        born_host=HOST,
        store_host=HOST,
    )


def put(store: MessageStore, first: int, count: int, queues: int, in_a_row: int = 1) -> None:
    for number, at in enumerate(range(first, first + count, BURST)):
        numbers = range(at, min(at + BURST, first + count))
        store.put([record(one, (one - first) // in_a_row % queues) for one in numbers])
        if number % FLUSH_EVERY == FLUSH_EVERY - 1:
            store.flush_now()
    store.flush_now()


def read_all(store: MessageStore) -> int:
    """One queue, as a consumer does."""
    seen = offset = 0
    while True:
        picked = store.reader.select("Topic0", 0, offset, max_count=32, max_bytes=256 << 10)
        if not picked.ranges:
            return seen
        seen += len(store.reader.read_cold(picked.ranges))
        offset = picked.next_offset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--queues", type=int, default=50_000)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        store = MessageStore(RealDisk(Path(name)), CONFIG, SystemClock())
        put(store, 0, 2000, 8)  # warm
        empty = resident()
        put(store, 2000, options.queues, options.queues)
        with_queues = resident()
        print(f"{'queues':>12} {options.queues:>12,} {(with_queues - empty) / options.queues:10.0f} bytes a queue")
        began = time.perf_counter()
        put(store, 2000 + options.queues, options.messages, options.queues, 50)
        rate = options.messages / (time.perf_counter() - began)
        grown = resident() - with_queues
        print(f"{'messages':>12} {options.messages:>12,} {grown / 1e6:10.1f} MB grown, {rate:.0f} messages/s")
        print(f"{'read':>12} {read_all(store):>12,} {(resident() - with_queues) / 1e6:10.1f} MB grown")
        store.close()
        began = time.perf_counter()
        store = MessageStore(RealDisk(Path(name)), CONFIG, SystemClock())
        took = time.perf_counter() - began
        print(f"{'opened':>12} {took:>11.1f}s {(resident() - empty) / options.queues:10.0f} bytes a queue, all told")
        store.close()


if __name__ == "__main__":
    main()
