"""A master's log taken by the native kernel, by its twin, and as sends wrote it: the same files, texts and wake-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel.python import feeds as python_feeds
from pyromq.kernel.python.placed import place_burst
from pyromq.protocol.record import MAGIC_V1, MAGIC_V2, Record
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreError
from pyromq.store.files.disk import Disk
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.log.following import NotFollowed
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.catalogue import CATALOGUE_FILE
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import Virtual
from tests.kernel.pull_frames import BY_ITSELF, HOLD, pull, pulls
from tests.kernel.test_native_send import send
from tests.kernel.twins import choose, lives, native_module
from tests.store.small import SMALL, SMALL_SYNC

START_MS = 1_700_000_000_000
ROOMY = replace(SMALL, index_entries=4000)
PLAIN = b"UNIQ_KEY\x01U%d\x02KEYS\x01k%d both\x02TAGS\x01t%d\x02"
WORDS = st.text(alphabet="ab é", max_size=6)
PROPERTIES = st.lists(
    st.tuples(st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "DELAY", "X", "__CRC32#"]), WORDS | st.just("2")),
    max_size=4,
).map(lambda pairs: b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs))
PLAIN_RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["T", "T", "Topic-2"]),
    queue_id=st.integers(0, 2),
    body=st.binary(max_size=60),
    properties=st.integers(0, 9).map(lambda number: PLAIN % (number, number, number)) | st.just(b""),
)
ODD_RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["T", "é", "SCHEDULE_TOPIC_XXXX", "t" * 130]),
    queue_id=st.integers(0, 1),
    body=st.binary(max_size=60),
    properties=PROPERTIES,
    sys_flag=st.sampled_from([0, 0, 4, 8, 12]),
    born_host=st.sampled_from([bytes(8), bytes(20)]),
    store_host=st.sampled_from([bytes(8), bytes(20)]),
    magic=st.sampled_from([MAGIC_V1, MAGIC_V2]),
) | st.builds(
    Record,
    topic=st.just("Batches"),
    queue_id=st.just(0),
    body=st.just(b"inner"),
    properties=st.integers(1, 3).map(lambda count: b"INNER_NUM\x01%d\x02" % count),
    sys_flag=st.just(0xC0),
)
BURSTS = st.lists(
    st.tuples(st.lists(PLAIN_RECORDS | PLAIN_RECORDS | ODD_RECORDS, min_size=1, max_size=8), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@contextmanager
def kernel(module: ModuleType) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        yield


def both() -> tuple[ModuleType, ModuleType]:
    return native_module(), python_feeds


class Master(NamedTuple):
    log: bytes
    files: dict[str, bytes]
    end: int


def files_of(disk: Disk, folder: str = "") -> dict[str, bytes]:
    """Every file of a store, by name, but for the one that tells when the system changed folders."""
    found: dict[str, bytes] = {}
    for name in disk.list(folder):
        path = f"{folder}/{name}" if folder else name
        if disk.is_folder(path):
            found |= files_of(disk, path)
        elif path != CATALOGUE_FILE:
            found[path] = disk.open(path, writable=False).pread(0, disk.size(path))
    return found


def of_any_time(files: dict[str, bytes]) -> dict[str, bytes]:
    """What a log leads to whenever it was taken: index files are named by the time at which they were made."""
    kept = {name: data for name, data in files.items() if name.startswith(("commitlog", "consume", "batch"))}
    index = (data for name, data in sorted(files.items()) if name.startswith("index"))
    return kept | {f"index {number}": data for number, data in enumerate(index)} | {"checkpoint": files["checkpoint"]}


def written(bursts: Sequence[tuple[Sequence[Record], int]], config: StoreConfig = ROOMY, crc: str = "y") -> Master:
    """A store that was written by sends: `crc` says for one life after the other whether records have their own."""
    disk, clock = SimulatedDisk(), ManualClock(START_MS)
    for number, has_crc in enumerate(crc):
        store = MessageStore(disk, replace(config, whole_record_crc=has_crc == "y"), clock)
        for records, pause in bursts[number :: len(crc)]:
            store.put([msgspec.structs.replace(record) for record in records])
            clock.step_wall(pause / 1000)
        end = store.commit_log.end
        log = b"".join(store.commit_log.sequence.pieces(0, end, 1 << 20))
        store.close()
    return Master(log, files_of(disk), end)


class Taken(NamedTuple):
    """What came of a stream: the files, where the log ended, and what was said."""

    files: dict[str, bytes]
    end: int
    said: str


def taken(log: bytes, cuts: Sequence[int], config: StoreConfig = ROOMY) -> tuple[Taken, int]:
    """Hand a stream to a new slave in pieces that end at the cuts; the outcome, and how much the kernel took."""
    disk, said = SimulatedDisk(), ""
    store = MessageStore(disk, config, ManualClock(START_MS))
    ends = sorted({cut for cut in cuts if 0 < cut < len(log)} | {len(log)} - {0})
    begin = 0
    try:
        for end in ends:
            store.following.take(begin, log[begin:end])
            begin = end
    except (NotFollowed, StoreError) as fault:
        said = f"{type(fault).__name__}: {fault}"
    end, by_kernel = store.commit_log.end, store._writer.follow.messages
    assert store.readable.value == store.appended.value == end
    store.close()
    return Taken(files_of(disk), end, said), by_kernel


@given(BURSTS, st.lists(st.integers(0, 4000), max_size=6), st.sampled_from(["y", "n", "yn", "ny", "yny"]))
def test_any_log_in_any_pieces(bursts: list[tuple[list[Record], int]], cuts: list[int], crc: str) -> None:
    master = written(bursts, crc=crc)
    outcomes = []
    for module in both():
        with kernel(module):
            outcomes.append(taken(master.log, cuts)[0])
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0].end, outcomes[0].said) == (master.end, "")
    assert of_any_time(outcomes[0].files) == of_any_time(master.files)


@given(BURSTS, st.lists(st.integers(0, 4000), max_size=4), st.data())
def test_a_mutated_stream_ends_at_the_same_place_with_the_same_words(
    bursts: list[tuple[list[Record], int]], cuts: list[int], data: st.DataObject
) -> None:
    raw = bytearray(written(bursts, crc=data.draw(st.sampled_from(["y", "n", "yn"]))).log)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "repeat"])):
            case "flip":
                raw[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del raw[at : at + data.draw(st.integers(1, 200))]
            case "insert":
                raw[at:at] = data.draw(st.binary(min_size=1, max_size=9))
            case "repeat":
                raw[at:at] = raw[at : at + 150]
        if not raw:
            return
    outcomes = []
    for module in both():
        with kernel(module):
            outcomes.append(taken(bytes(raw), cuts)[0])
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("module", both(), ids=["native", "python"])
def test_plain_records_are_the_kernel_s_but_for_the_first_of_each_queue(module: ModuleType) -> None:
    records = [
        Record(topic="T", queue_id=n % 3, body=b"x", properties=PLAIN % (n, n, n), sys_flag=4 if n > 57 else 0)
        for n in range(60)
    ]
    master = written([(records[n : n + 5], 1) for n in range(0, 60, 5)], replace(ROOMY, commit_log_file_bytes=1 << 20))
    with kernel(module):
        outcome, by_kernel = taken(master.log, [], replace(ROOMY, commit_log_file_bytes=1 << 20))
    assert (by_kernel, outcome.said) == (57, "")
    assert of_any_time(outcome.files) == of_any_time(master.files)


ODD = [
    Record(topic="SCHEDULE_TOPIC_XXXX", queue_id=0, body=b"x", properties=b"DELAY\x012\x02"),
    Record(topic="T", queue_id=0, body=b"x", properties=b"INNER_NUM\x012\x02", sys_flag=0xC0),
    Record(topic="T", queue_id=0, body=b"x", properties=b"TAGS\x01a\x02", queue_offset=7),
    Record(topic="T", queue_id=-1, body=b"x"),
]


@pytest.mark.parametrize("odd", ODD, ids=["delayed", "inner batch", "offset", "queue"])
@pytest.mark.parametrize("module", both(), ids=["native", "python"])
def test_what_is_odd_is_left(module: ModuleType, odd: Record) -> None:
    disk = SimulatedDisk()
    with kernel(module):
        store = MessageStore(disk, ROOMY, ManualClock(START_MS))
        store.put([Record(topic="T", queue_id=0, body=b"first")])
        end = store.commit_log.end
        (raw,), _ = place_burst([msgspec.structs.replace(odd)], end, START_MS, {2: 5000}, True)
        assert store._writer.follow.take(raw, True) == 0
        assert store.commit_log.end == end


@pytest.mark.parametrize("module", both(), ids=["native", "python"])
@pytest.mark.parametrize(("has_crc", "wanted", "is_taken"), [
    (True, True, True), (True, False, False), (True, None, True),
    (False, True, False), (False, False, True), (False, None, True),
])  # fmt: skip
def test_records_of_the_other_kind_are_left(
    module: ModuleType, has_crc: bool, wanted: bool | None, is_taken: bool
) -> None:
    """The store writes down first where records begin to have their own CRC, or cease to."""
    with kernel(module):
        store = MessageStore(SimulatedDisk(), ROOMY, ManualClock(START_MS))
        store.put([Record(topic="T", queue_id=0, body=b"first")])
        record = Record(topic="T", queue_id=0, body=b"x", queue_offset=1)
        (raw,), _ = place_burst([record], store.commit_log.end, START_MS, {}, has_crc)
        assert store._writer.follow.take(memoryview(raw), wanted) == (len(raw) if is_taken else 0)
        store._writer.stop("for the test")
        assert store._writer.follow.take(raw, wanted) == 0


@pytest.mark.parametrize(("offset", "is_taken"), [
    (1, True), (0, True), (1 + 1000, True), (1 + (1 << 22), False), (1 << 40, False), (1 << 62, False), (-1, False),
])  # fmt: skip
@pytest.mark.parametrize("module", both(), ids=["native", "python"])
def test_an_offset_that_cannot_be_is_damage(module: ModuleType, offset: int, is_taken: bool) -> None:
    """Java's records have no CRC over their head. A gap is filled, so it must not be as large as a flipped bit says."""
    with kernel(module):
        store = MessageStore(SimulatedDisk(), replace(ROOMY, queue_file_bytes=20 * 4000), ManualClock(START_MS))
        store.put([Record(topic="T", queue_id=0, body=b"first")])
        record = Record(topic="T", queue_id=0, body=b"x", queue_offset=offset)
        end = store.commit_log.end
        (raw,), _ = place_burst([record], end, START_MS, {}, False)
        if is_taken:
            store.following.take(end, raw)
            assert store.commit_log.end == end + len(raw)
            return
        with pytest.raises(NotFollowed, match=rf"the record at {end} is damaged: it says that it is message {offset} "):
            store.following.take(end, raw)
        assert store.commit_log.end == end


@pytest.mark.parametrize("module", both(), ids=["native", "python"])
def test_a_deleted_topic_s_queue_is_asked_for_anew(module: ModuleType) -> None:
    """The lanes of its older life must not be used: their files are gone."""
    with kernel(module):
        master = MessageStore(SimulatedDisk(), ROOMY, ManualClock(START_MS))
        slave = MessageStore(SimulatedDisk(), ROOMY, ManualClock(START_MS))
        for body in (b"old", b"new"):
            master.put([Record(topic="T", queue_id=0, body=body) for _ in range(4)])
            at = slave.following.position
            slave.following.take(at, master.commit_log.read(at, master.commit_log.end - at))
            queue, there = slave.queues.get("T", 0), master.queues.get("T", 0)
            assert queue is not None
            assert there is not None
            assert (queue.next_offset, queue.readable_end) == (4, 4)
            assert queue.entries.read(0, 4) == there.entries.read(0, 4)
            if body == b"old":
                master.queues.remove_topic("T")
                slave.queues.remove_topic("T")


@pytest.mark.parametrize("config", [ROOMY, SMALL, replace(SMALL_SYNC, index_tags=False)], ids=["one", "many", "sync"])
def test_many_pieces_on_a_real_disk(tmp_path: Path, config: StoreConfig) -> None:
    """Over the ends of log, queue and index files, by descriptors."""
    rng, found = Random(7), []
    bursts = [
        (
            [
                Record(
                    topic=rng.choice("ABC"),
                    queue_id=rng.randrange(3),
                    body=rng.randbytes(rng.randrange(400)),
                    properties=PLAIN % (number, number, number % 3),
                )
                for number in range(rng.randrange(1, 12))
            ],
            rng.randrange(3),
        )
        for _ in range(40)
    ]
    master = written(bursts, config)
    for number, module in enumerate(both()):
        with kernel(module):
            disk = RealDisk(tmp_path / str(number), create=True)
            store = MessageStore(disk, config, ManualClock(START_MS))
            at = 0
            pieces = Random(3)
            while at < master.end:
                piece = min(pieces.randrange(1, 3000), master.end - at)
                store.following.take(at, memoryview(master.log)[at : at + piece])
                at += piece
            store.close()
            found.append(files_of(disk))
    assert found[0] == found[1]
    assert of_any_time(found[0]) == of_any_time(master.files)


async def test_a_slave_of_a_broker_whose_kernel_took_the_sends(tmp_path: Path) -> None:
    """Files of log and queues, as the feed of sends wrote them."""
    bursts = [b"".join(send(n, queue=n % 3) for n in range(first, first + 12)) for first in range(0, 48, 12)]
    seen = await lives(tmp_path, bursts, native_module())
    assert seen.by_kernel == 48
    names = sorted(name for name in seen.files if name.startswith("commitlog"))
    log = b"".join(seen.files[name] for name in names)
    config = StoreConfig(commit_log_file_bytes=len(seen.files[names[0]]), index_slots=1000, index_entries=4000)
    store = MessageStore(SimulatedDisk(), config, ManualClock(START_MS))
    with pytest.raises(NotFollowed, match="no record begins at"):  # zeroes are behind it: files are allocated whole
        store.following.take(0, log)
    for name, data in seen.files.items():
        folder, topic, queue_id, *_ = name.split("/") + [""] * 3
        if folder == "consumequeue":
            queue = store.queues.get(topic, int(queue_id))
            assert queue is not None
            assert data.startswith(queue.entries.read(0, queue.next_offset))
            assert not any(data[queue.next_offset * 20 :])
    assert store.commit_log.end == len(log.rstrip(b"\0"))
    assert store._writer.follow.messages == 48


@pytest.mark.parametrize("config", [ROOMY, replace(ROOMY, flush_mode=SMALL_SYNC.flush_mode)], ids=["async", "sync"])
@pytest.mark.parametrize("module", both(), ids=["native", "python"])
async def test_who_waits_is_told_of_what_is_readable(module: ModuleType, config: StoreConfig) -> None:
    master = written([([Record(topic="T", queue_id=n % 2, body=b"x") for n in range(10)], 1)])
    with kernel(module):
        store = MessageStore(SimulatedDisk(), config, ManualClock(START_MS))
        heard: list[tuple[int, int]] = []
        store.on_arrival("T", lambda tail: heard.append((tail.queue_id, tail.readable_end)))
        advanced: list[int] = []
        store.readable.on_advance(advanced.append)
        store.following.take(0, master.log)
        if config is not ROOMY:
            assert not heard  # nothing is synced
            await store.flush_log()
        assert advanced[-1] == master.end
        assert {queue: end for queue, end in heard} == {0: 5, 1: 5}  # noqa: C416 - the last of each


@pytest.mark.parametrize("module", both(), ids=["native", "python"])
async def test_a_held_pull_is_answered_by_what_the_master_sends(tmp_path: Path, module: ModuleType) -> None:
    def follow(life: Virtual) -> None:
        store = life.broker.store
        records = [
            Record(
                topic="A", queue_id=0, body=b"from the master %d" % n, queue_offset=1 + n, properties=PLAIN % (n, n, n)
            )
            for n in range(3)
        ]
        raw, _ = place_burst(records, store.commit_log.end, START_MS, {}, True)
        store.following.restart()
        store.following.take(store.commit_log.end, b"".join(raw))
        assert store._writer.follow.messages == 3

    told = await pulls(tmp_path, [pull(1, 1, flags=HOLD | BY_ITSELF), follow], module)
    assert (told.held, len(told.answers)) == (0, 1)
    assert told.answers[0].count(b"from the master") == 3
