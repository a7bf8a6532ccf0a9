"""Two brokers that get the same bytes, one behind a kernel and one without: what they answer and store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pyromq.broker.send import verdicts
from pyromq.broker.wiring import environment as composition
from pyromq.broker.wiring import listeners
from pyromq.kernel import state
from pyromq.kernel.choice import is_built
from pyromq.kernel.python import feeds as python_feeds
from pyromq.model.ids import pack_host
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.files.disk import Disk
from pyromq.testing.clock import ManualClock
from pyromq.transport.settings import StrangerSettings
from tests.broker.virtual import Virtual, virtual_broker
from tests.support import require
from tests.transport.support import BytesPeer, RawPeer, raw_peer

PEER = "127.0.0.1:50001"
FOLDERS = ("commitlog", "consumequeue", "index")


SERVES = ["native"]  # or python: set by conftest for tests that run on both


def native_module() -> ModuleType:
    """The kernel that the test is about: the native one, or its twin in Python where a test runs on both."""
    if SERVES[0] == "python":
        return python_feeds
    require(is_built(), "the native kernel (make native)")
    from importlib import import_module

    return import_module("pyromq.kernel.native.kernel")


def is_counted(by_kernel: int, expected: int) -> bool:
    """Whether the kernel took so many. Asked of the native one: its twin leaves batches and the ends of files to the
    handlers, and takes headers of other shapes."""
    return by_kernel == expected or SERVES[0] == "python"


class Seen(NamedTuple):
    """What can be told from outside: answers in the order of their opaque, and every file."""

    answers: list[bytes]
    files: dict[str, bytes]
    is_lost: bool
    by_kernel: int  # messages that the kernel took


TOPICS = (
    TopicConfig(topic_name="A", read_queue_nums=4, write_queue_nums=4),
    TopicConfig(topic_name="B", read_queue_nums=2, write_queue_nums=1),
    TopicConfig(topic_name="Typed", attributes={"message.type": "NORMAL"}),
    TopicConfig(
        topic_name="Kept", attributes={"message.type": "FIFO", "reserve.time": "5", "cleanup.policy": "DELETE"}
    ),
    TopicConfig(topic_name="Compacted", attributes={"cleanup.policy": "COMPACTION"}),
    TopicConfig(topic_name="Delayed", attributes={"message.type": "DELAY"}),
    TopicConfig(topic_name="ReadOnly", perm=4),
    TopicConfig(topic_name="Many", topic_filter_type="MULTI_TAG"),
)


def know_everybody(patch: pytest.MonkeyPatch) -> None:
    """Connections to brokers made from now on count as such that have shown who they are: no kernel serves others."""
    patch.setattr(StrangerSettings, "within", lambda self, limits, body_bytes: limits)


def choose(patch: pytest.MonkeyPatch, module: ModuleType | None) -> None:
    """Brokers made from now on have this kernel, or none (handlers serve all), and one host in their records."""
    native = None if module is python_feeds else module
    patch.setattr(verdicts, "native", lambda: native)
    if module is None:
        patch.setattr(listeners, "kernel_verdicts", lambda parts: None)
    for name in state.KERNEL_CLASSES:
        patch.setattr(state, name, getattr(native or state.PYTHON, name))
    patch.setattr(composition, "pack_host", lambda ip, _: pack_host(ip, 10911))


async def ready(life: Virtual) -> None:
    """Topics, and a first message in each queue, so that queues and log files exist."""
    for topic in TOPICS:
        life.broker.topics.put(topic)
    for name, queues in (("A", 3), ("B", 1), ("Typed", 1), ("Kept", 1), ("Many", 1)):
        for queue in range(queues):
            sent = asyncio.ensure_future(life.send(name, b"first", queue, {"UNIQ_KEY": f"first{queue}"}))
            await life.clock.settle()
            await life.broker.store.flush_log()  # under SYNC_FLUSH the answer waits for it
            await sent


async def lives(
    folder: Path,
    bursts: Sequence[bytes],
    module: ModuleType | None,
    **settings: Any,
) -> Seen:
    """Write the bursts one after another to one connection, each after all was done about the one before. With the
    setting `files_ahead` the log's next file is there before each burst."""
    files_ahead = settings.pop("files_ahead", False)
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock, **settings) as life:
            await ready(life)
            peer = raw_peer(life.broker.servers[0], PEER)
            for burst in bursts:
                if files_ahead:
                    await life.broker.store.make_file_ahead()
                if not peer.is_lost:
                    peer.write(burst)
                await clock.settle()
                await life.broker.store.flush_log()
                await clock.settle()
            await life.broker.store.flush_all()
            answers = sorted((bytes(one) for one in split(peer.raw)), key=_opaque_of(peer))
            taken = sum(one.kernel.messages for one in life.broker.verdicts)
            return Seen(answers, contents(life.disk), peer.is_lost, taken)


def _opaque_of(peer: RawPeer) -> Any:
    order = {bytes(one): number for number, one in enumerate(split(peer.raw))}
    opaques = [one.opaque for one in peer.received]
    return lambda raw: (opaques[order[raw]], raw)


def split(raw: bytes | bytearray) -> list[bytes]:
    frames, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
        frames.append(bytes(raw[at:end]))
        at = end
    return frames


def contents(disk: Disk) -> dict[str, bytes]:
    """Every file of the store's own folders."""
    found: dict[str, bytes] = {}
    waiting = list(FOLDERS)
    while waiting:
        name = waiting.pop()
        if disk.is_folder(name):
            waiting += [f"{name}/{one}" for one in disk.list(name)]
        elif disk.exists(name):
            found[name] = disk.open(name, writable=False).pread(0, disk.size(name))
    return found


__all__ = [
    "PEER",
    "TOPICS",
    "BytesPeer",
    "Seen",
    "choose",
    "contents",
    "is_counted",
    "lives",
    "native_module",
    "ready",
    "split",
]
