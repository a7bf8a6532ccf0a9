"""Copies of messages whose time is over, by the native kernel and in Python: the same files, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyromq.broker.pop.young import revive
from pyromq.kernel.python import feeds as python_feeds
from pyromq.model.ids import pack_host
from pyromq.model.message import SysFlag
from pyromq.model.wire_text import INT_MAX
from pyromq.protocol.batch import BatchEntry
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.properties import rejoin_properties
from pyromq.protocol.record import MAGIC_V1, MAGIC_V2, Record, with_room_for_crc
from pyromq.store.config import FlushMode
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.twins import choose, contents, native_module

T0 = 1_700_000_000_000
HOSTS = (pack_host("10.1.2.3", 4000), pack_host("fe80::1", 4000))
GROUP, RETRY, QUEUES = "G", "%RETRY%G_T", 2
PAIRS: Sequence[tuple[str, str]] = (
    ("TAGS", "a"),
    ("KEYS", "k1 k2  k3"),
    ("UNIQ_KEY", "AC1100010000"),
    ("1ST_POP_TIME", "17"),
    ("ORIGIN_GROUP", "another"),
    ("POP_CK", "0 1 2 3 0 b 0 5"),
    ("CLUSTER", "c"),
    ("wide", "größer"),
    ("one", "a\x01b"),
    ("long", "x" * 3_000),
)
ODD: Sequence[bytes] = (
    b"TAGS\x01a\x02TAGS\x01b\x02",  # twice
    b"TAGS\x01\xff\xfe\x02",
    "TAGS\x01ü\x02KEYS\x01é\x02".encode(),
    b"no value\x01\x02\x01no name\x02TAGS\x01a",
    b"".join(b"p%d\x01v\x02" % number for number in range(100)),
    b"most\x01" + b"x" * 32_500 + b"\x02CLUSTER\x01" + b"c" * 200 + b"\x02",  # one has to go
)


@dataclass(frozen=True)
class Life:
    """What was stored, and how many of the copies the kernel made."""

    files: dict[str, bytes]
    copies: list[Record]  # in the retry topic, without their places
    by_kernel: int
    revived: int


def record(chance: random.Random, number: int, is_odd: bool) -> Record:
    """A message as it may stand in a log."""
    chosen = chance.sample(PAIRS, chance.randrange(len(PAIRS)))
    raw = chance.choice(ODD) if is_odd else rejoin_properties(dict(chosen))
    if raw and chance.random() < 0.2:
        raw = raw.rstrip(b"\x02")
    flags = (0, SysFlag.COMPRESSED | 0x100, SysFlag.TRANSACTION_COMMIT, SysFlag.MULTI_TAGS)
    return Record(
        topic="T",
        queue_id=number % QUEUES,
        body=b"%d" % number + chance.randbytes(chance.randrange(40)) * (not is_odd),
        properties=raw,
        flag=chance.choice((0, 7, -1)),
        sys_flag=chance.choice(flags),
        born_timestamp=T0 - chance.randrange(1_000_000),
        born_host=chance.choice(HOSTS),
        store_host=chance.choice(HOSTS),
        reconsume_times=chance.choice((0, 0, 1, 15, INT_MAX)),
        magic=MAGIC_V2 if chance.random() < 0.2 else MAGIC_V1,
    )


def fill(life: Virtual, chance: random.Random, count: int, *, odd: float) -> None:
    """Put messages one by one, and the last as a batch."""
    store = life.broker.store
    for number in range(count):
        store.put([record(chance, number, chance.random() < odd)])
    inner = [BatchEntry(b"inner%d" % number, number, b"TAGS\x01t\x02") for number in range(3)]
    store.put_batch(record(chance, count, False), inner)


def hand_out(life: Virtual, chance: random.Random, topic: str = "T", queues: int = QUEUES) -> int:
    """Give all of a topic to the group, in check points of any size, with gaps; some of it is acked or changed. Return
    how many stay open."""
    parts, now = life.broker.pop_parts, life.clock.now_ms()
    table, given = parts.table, 0
    for queue_id in range(queues):
        queue = life.broker.store.queues.get(topic, queue_id)
        lane = parts.lanes.open(GROUP, topic, queue_id, 0)
        at = table.next_offset(lane)
        while queue is not None and at < queue.next_offset:
            until = min(at + chance.choice((1, 2, 32, 70)), queue.next_offset)
            offsets = [one for one in range(at, until) if chance.random() < 0.9][:64] or [at]
            pop_time = now - chance.randrange(50)
            assert table.hand_out(lane, at, offsets, until, pop_time, 1_000, 0)
            for offset in offsets:
                given += 1
                if chance.random() < 0.2:
                    table.ack(lane, at, pop_time, offset)
                    given -= 1
                elif chance.random() < 0.1:
                    table.change(lane, at, pop_time, offset, now + 100, 500, chance.random() < 0.5)
            at = until
    parts.journal.changed()
    return given


def copies(life: Virtual) -> list[Record]:
    """What stands in the retry topic, without places: these differ where the kernel leaves some to Python."""
    found = [one for queue in range(QUEUES) for one in life.stored(RETRY, queue)]
    for one in found:
        one.queue_offset = one.physical_offset = one.store_timestamp = 0
        one.properties = with_room_for_crc(one.properties)
    return sorted(found, key=repr)


async def expired(life: Virtual, chance: random.Random, odd: float) -> int:
    """All that a topic has is popped, and its time is over. Return how many were not acked."""
    broker = life.broker
    broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    broker.groups.ensure(GROUP, broker.live.config)
    fill(life, chance, 300, odd=odd)
    open_messages = hand_out(life, chance)
    await life.advance(3)
    return open_messages


async def lives(folder: Path, module: ModuleType, seed: int, odd: float = 0.0, **options: Any) -> Life:
    """All expires: from the topic, then from its retry topic."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        patch.setattr(revive, "COPIED_AT_ONCE", revive.MESSAGES_AT_ONCE)  # so that journal records stand alike
        clock, chance = ManualClock(T0), random.Random(seed)
        async with virtual_broker(folder, clock=clock, **options) as life:
            broker = life.broker
            open_messages = await expired(life, chance, odd)
            if not odd:  # else they stand in another order, and others of them would be acked
                open_messages += hand_out(life, chance, RETRY)
            await life.advance(3)
            assert broker.pop_parts.revive.revived == open_messages
            assert broker.pop_parts.table.in_flight() == []
            await broker.store.flush_all()
            by_kernel = broker.pop_parts.revive.copying.kernel.messages
            return Life(contents(life.disk), copies(life), by_kernel, open_messages)


async def both(folder: Path, seed: int, odd: float = 0.0, **options: Any) -> tuple[Life, Life]:
    native = await lives(folder / "native", native_module(), seed, odd, **options)
    return native, await lives(folder / "python", python_feeds, seed, odd, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_separate_retry_queue": True},
        {"index_tags": True},
        {"index_enabled": False},
        {"enable_retry_topic_v2": True},
        {"flush_mode": FlushMode.SYNC},
    ],
    ids=lambda options: next(iter(options), "defaults"),
)
async def test_both_write_the_same_files(tmp_path: Path, options: dict[str, Any]) -> None:
    native, python = await both(tmp_path, 1, **options)
    assert native.files == python.files
    assert native.revived == python.revived
    assert python.by_kernel == 0
    assert native.by_kernel > 0.6 * native.revived  # what comes first makes topic and queue, in Python


@pytest.mark.parametrize("seed", range(2, 8))
async def test_many_messages(tmp_path: Path, seed: int) -> None:
    native, python = await both(tmp_path, seed)
    assert native.files == python.files
    assert native.by_kernel > 0


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_odd_is_copied_in_python(tmp_path: Path, seed: int) -> None:
    native, python = await both(tmp_path, seed, odd=0.03)
    assert native.copies == python.copies
    assert len(native.copies) == native.revived
    assert 0 < native.by_kernel < native.revived


async def test_what_cannot_be_appended_stays(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, native_module())
        chance = random.Random(9)
        async with virtual_broker(tmp_path, clock=ManualClock(T0)) as life:
            made = await expired(life, chance, 0.0)
            parts, appender = life.broker.pop_parts, life.broker.store.appender
            popped = hand_out(life, chance, RETRY)
            await life.clock.settle()
            appender.stopped = "a test said so"
            await life.advance(3)
            assert parts.revive.revived == made
            assert sum(one.messages for one in parts.table.in_flight()) == popped
            appender.stopped = None
            await life.advance(3)
            assert parts.table.in_flight() == []
            assert parts.revive.revived == len(copies(life)) == made + popped
