"""How fast an unclean stop is recovered from: records checked and dispatched again, against reading the same bytes.

    python bench/recovery.py [--messages 100000] [--folder /var/tmp]

`raw read` is the log read from beginning to end in pieces of 1 MiB, warm as after a kill; `walk` checks every record
without dispatching; `recovery` also writes queues and index anew. Compare ratios, not times.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyromq.ambient import SystemClock
from pyromq.model.ids import pack_host
from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.file_sequence import FileSequence
from pyromq.store.files.open_files import OpenFiles
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.log.log_walk import LogWalk
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.checkpoint import Checkpoint, CheckpointFile

HOST = pack_host("127.0.0.1", 10911)
CONFIG = StoreConfig(commit_log_file_bytes=64 << 20, index_slots=500_000, index_entries=2_000_000)


def fill(root: Path, messages: int, body: bytes) -> int:
    """A store that was killed before its first checkpoint; the end of its log."""
    disk = RealDisk(root, create=True)
    store = MessageStore(disk, CONFIG, SystemClock())
    for first in range(0, messages, 200):
        store.put(
            [
                Record(
                    topic="BenchTopic",
                    queue_id=number % 4,
                    body=body,
                    properties=b"UNIQ_KEY\x01C000020240734E0E2F2A4C2B%08X\x02TAGS\x01TagA\x02" % number,
                    born_host=HOST,
                    store_host=HOST,
                )
                for number in range(first, first + 200)
            ]
        )
    store.close()
    checkpoint = CheckpointFile(disk)
    checkpoint.save(Checkpoint())
    checkpoint.close()
    (root / "abort").write_text("1 pyromq")
    return store.commit_log.end


def raw_read(root: Path, end: int) -> None:
    for path in sorted((root / "commitlog").iterdir()):
        with path.open("rb", buffering=0) as file:
            for _ in range(0, min(CONFIG.commit_log_file_bytes, end - int(path.name)), 1 << 20):
                file.read(1 << 20)


def walk(root: Path, end: int) -> None:
    disk = RealDisk(root)
    files = OpenFiles(disk, 8)
    sequence = FileSequence(disk, files, "commitlog", CONFIG.commit_log_file_bytes)
    sequence.load()
    for _ in LogWalk(sequence, CONFIG.delay_levels, 0, lambda fault: True):
        pass
    files.close()


def recover(root: Path, end: int) -> None:
    MessageStore(RealDisk(root), CONFIG, SystemClock()).close()


def seconds(act: Callable[[Path, int], None], root: Path, end: int) -> float:
    start = time.perf_counter()
    act(root, end)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    print(f"{'body':>6} {'what':>10} {'MB/s':>8} {'records/s':>10} {'of raw read':>12}")
    for size in (128, 1024):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            root = Path(name)
            end = fill(root, options.messages, os.urandom(size))
            raw = seconds(raw_read, root, end)
            for what, took in (
                ("raw read", raw),
                ("walk", seconds(walk, root, end)),
                ("recovery", seconds(recover, root, end)),
            ):
                print(
                    f"{size:6d} {what:>10} {end / took / 1e6:8.1f} {options.messages / took:10.0f} {raw / took:12.3f}"
                )


if __name__ == "__main__":
    main()
