"""Crashes of real processes on real file systems: kill -9 in a folder, power loss on a loop-mounted ext4 or xfs.

A cycle: a child writes under load and reports each ack through a pipe; it is killed at a random ack; for a power loss
the file system is shut down without writing anything back and mounted again; another child opens the store, compares
it with the acks, and either stops cleanly (then `verify` must find nothing) or dies too.

    python -m tests.crash.real kill --cycles 200
    python -m tests.crash.real power --fs ext4 --cycles 1000        (as root)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.record import Record
from pyromq.store.config import FlushMode, StoreConfig
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.log.thread_flusher import thread_flusher
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.verify import verify_store
from tests.crash.history import Broken, read_everything
from tests.store.small import by_key

FS_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2
PRODUCERS = 4
QUEUES = 3
TOPIC = "orders"


def config(mode: FlushMode) -> StoreConfig:
    """Files that roll every few hundred messages."""
    return StoreConfig(
        commit_log_file_bytes=1 << 18,
        queue_file_bytes=20 * 200,
        index_slots=100,
        index_entries=400,
        flush_mode=mode,
        flush_interval_ms=20,
        flush_least_pages=0,
        queue_flush_interval_ms=50,
    )


# -- the writer, in a child -------------------------------------------------------------------------------------------


def body_of(number: int, size: int) -> bytes:
    """Tells its number, and whether it is whole."""
    filler = Random(number).randbytes(size)
    return b"%d|%s|" % (number, hashlib.sha256(filler).hexdigest().encode()) + filler


def number_of(body: bytes) -> int:
    """Raises Broken if the body is not as it was written."""
    try:
        number, digest, filler = body.split(b"|", 2)
        whole = hashlib.sha256(filler).hexdigest().encode() == digest
    except ValueError:
        whole = False
    if not whole:
        raise Broken(f"a torn body is shown: {body[:60]!r}")
    return int(number)


async def write_under_load(root: str, mode: FlushMode, first_number: int, seed: int, acks: int) -> None:
    """Until killed. Each ack is a line in the pipe `acks`: number, queue, offset, end."""
    clock, rng = SystemClock(), Random(seed)
    loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(2)
    disk = RealDisk(root, create=True)
    store = MessageStore(
        disk,
        config(mode),
        clock,
        lambda call: loop.run_in_executor(pool, call),
        flusher=thread_flusher(disk),  # syncs are the kernel's where it serves
    )
    numbers = iter(range(first_number, 1 << 60))

    async def produce() -> None:
        while True:
            number, queue_id = next(numbers), rng.randrange(QUEUES)
            properties = encode_properties({"KEYS": f"key-{number}", "TAGS": "a"})
            body = body_of(number, rng.choice([10, 100, 1000, 5000]))
            placed = store.put([Record(topic=TOPIC, queue_id=queue_id, body=body, properties=properties)])[0]
            await store.readable.reached(placed.end)
            os.write(acks, struct.pack(">qqqq", number, queue_id, placed.queue_offset, placed.end))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.run())
        for _ in range(PRODUCERS):
            tasks.create_task(produce())


# -- the check, in another child --------------------------------------------------------------------------------------


@dataclass
class Acks:
    """What the writers were told: number -> (queue, offset, end)."""

    known: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    next_number: int = 0

    def take(self, number: int, queue_id: int, offset: int, end: int) -> None:
        self.known[number] = (queue_id, offset, end)


def check(root: str, mode: FlushMode, acks: Acks, all_promised: bool, stop_cleanly: bool) -> dict[str, Any]:
    """Raises Broken. Returns what the parent has to know: which acks are gone, the largest number seen."""
    disk = RealDisk(root)
    store = MessageStore(disk, config(mode), SystemClock())
    if store.recovery.damage:
        raise Broken(f"damage where there was none: {store.recovery.damage}")
    found: dict[int, tuple[int, int, int]] = {}
    for (_, queue_id, offset), record in read_everything(store).items():
        found[number_of(record.body)] = (queue_id, offset, record.physical_offset + record.size)
    gone = sorted(set(acks.known) - set(found))
    moved = [number for number in acks.known if number in found and found[number] != acks.known[number]]
    if moved:
        raise Broken(f"{moved[0]} was acked at {acks.known[moved[0]]} and is at {found[moved[0]]}")
    if gone and all_promised:
        raise Broken(f"{len(gone)} acked messages are gone, the first is {gone[0]}: {acks.known[gone[0]]}")
    if gone:
        first = min(acks.known[number][2] for number in gone)
        behind = [number for number, place in acks.known.items() if number in found and place[2] > first]
        if behind:
            raise Broken(f"a hole: {gone[0]} is gone, {behind[0]} behind it is there")
    for number in list(found)[-20:]:
        if not by_key(store, TOPIC, f"key-{number}"):
            raise Broken(f"key-{number} is not found")
    if stop_cleanly:
        store.close()
        report = verify_store(disk, config(mode))
        if report.exit_code:
            raise Broken(f"verify after a clean stop: {report.findings[:3]}")
    return {"gone": gone, "largest": max(found, default=-1), "messages": len(found)}


# -- places -----------------------------------------------------------------------------------------------------------


class Folder:
    """A folder of this machine: only processes die."""

    def __init__(self, root: Path) -> None:
        self.root = str(root / "store")

    def cut_power(self) -> None:
        raise NotImplementedError("a plain folder has no power of its own")

    def close(self) -> None:
        """The caller removes the folder."""


class LoopMount:
    """A file system in a file, whose power can be cut. Needs root."""

    def __init__(self, folder: Path, kind: str, size: int = 512 << 20) -> None:
        self._image = folder / f"{kind}.img"
        self._mount = folder / kind
        self._mount.mkdir()
        with self._image.open("wb") as file:
            file.truncate(size)
        run(f"mkfs.{kind}", "-q", str(self._image))
        self._mount_it()
        self.root = str(self._mount / "store")

    def _mount_it(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self._mount))

    def cut_power(self) -> None:
        """Nothing more reaches the image: what was not synced is gone, the journal is replayed at the next mount."""
        descriptor = os.open(self._mount, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, FS_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(descriptor)
        run("umount", str(self._mount))
        self._mount_it()

    def close(self) -> None:
        run("umount", str(self._mount))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def why_no_power_cuts(kind: str) -> str | None:
    """What this machine lacks for a power cut, or None."""
    if os.geteuid() != 0:
        return "power cuts need root (mount, FS_IOC_SHUTDOWN)"
    if shutil.which(f"mkfs.{kind}") is None:
        return f"power cuts on {kind} need mkfs.{kind}"
    return None


# -- cycles -----------------------------------------------------------------------------------------------------------


def in_child(task: Callable[[], Any]) -> tuple[int, Any]:
    """Run in a forked child; its result as JSON, or the text of what it raised. (exit code, result)"""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        try:
            answer, code = json.dumps(task()), 0
        except BaseException:
            answer, code = json.dumps(traceback.format_exc()), 1
        with os.fdopen(send, "w") as pipe:
            pipe.write(answer)
        os._exit(code)
    os.close(send)
    with os.fdopen(receive) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(answer) if answer else None


def write_and_die(place: Folder | LoopMount, mode: FlushMode, acks: Acks, rng: Random) -> int:
    """Returns the number of acks before the kill."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        try:
            asyncio.run(write_under_load(place.root, mode, acks.next_number, rng.getrandbits(32), send))
        except BaseException:
            traceback.print_exc()
        os._exit(3)
    os.close(send)
    stop_after, count = rng.choice([rng.randint(1, 30), rng.randint(1, 600)]), 0
    with os.fdopen(receive, "rb") as pipe:
        for ack in lines(pipe):
            acks.take(*ack)
            count += 1
            if count == stop_after:
                os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise Broken("the writer ended by itself")
    return count


def lines(pipe: Any) -> Iterator[tuple[int, int, int, int]]:
    """Acks until the pipe ends; what was acked before the kill is still in it."""
    while len(data := pipe.read(32)) == 32:
        yield struct.unpack(">qqqq", data)


def cycle(place: Folder | LoopMount, mode: FlushMode, acks: Acks, rng: Random, power: bool) -> dict[str, Any]:
    count = write_and_die(place, mode, acks, rng)
    if power:
        place.cut_power()
    all_promised = not power or mode is FlushMode.SYNC
    code, result = in_child(lambda: check(place.root, mode, acks, all_promised, rng.random() < 0.5))
    if code:
        raise Broken(result)
    for number in result["gone"]:
        del acks.known[number]
    acks.next_number = max([acks.next_number, result["largest"], *acks.known]) + 1 + PRODUCERS
    return {"acks": count, "lost": len(result["gone"]), "messages": result["messages"]}


def campaign(make_place: Callable[[Path], Folder | LoopMount], power: bool, cycles: int, seed: int) -> dict[str, Any]:
    """Both flush modes in turn, each on a store of its own that is started anew every 25 cycles."""
    logging.disable(logging.CRITICAL)
    rng = Random(seed)
    totals = {"cycles": 0, "acks": 0, "lost": 0, "messages": 0}
    with tempfile.TemporaryDirectory(prefix="pyromq-crash-") as folder:
        for first in range(0, cycles, 25):
            mode = list(FlushMode)[first // 25 % 2]
            here = Path(folder) / str(first)
            here.mkdir()
            place, acks = make_place(here), Acks()
            try:
                for _ in range(min(25, cycles - first)):
                    result = cycle(place, mode, acks, rng, power)
                    totals["cycles"] += 1
                    totals["acks"] += result["acks"]
                    totals["lost"] += result["lost"]
                    totals["messages"] = max(totals["messages"], result["messages"])
            finally:
                with contextlib.suppress(RuntimeError):
                    place.close()
    return totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=["kill", "power"])
    parser.add_argument("--fs", choices=["ext4", "xfs"], default="ext4")
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    power = wanted.fault == "power"
    if power and (reason := why_no_power_cuts(wanted.fs)):
        sys.exit(reason)
    make: Callable[[Path], Folder | LoopMount] = (lambda folder: LoopMount(folder, wanted.fs)) if power else Folder
    print(json.dumps(campaign(make, power, wanted.cycles, wanted.seed)))


if __name__ == "__main__":
    main()
