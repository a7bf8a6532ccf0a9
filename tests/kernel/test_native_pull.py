"""Pulls through the native kernel and through Python: the same answers, offsets and counters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import decode_frames
from pyromq.store.files.real_disk import RealDisk
from tests.broker.virtual import Virtual
from tests.kernel.pull_frames import BY_ITSELF, HOLD, Step, Told, filled, pull, pulls, same
from tests.kernel.test_native_send import send
from tests.kernel.twins import native_module
from tests.wire import decode_messages

BOTH = pytest.mark.parametrize("encoding", list(Encoding))


def opaque_of(frame: bytes) -> int:
    return decoded(frame).opaque


def decoded(frame: bytes) -> Command:
    return decode_frames(frame)[0][0]


def bodies(told: Told, opaque: int) -> list[bytes]:
    found = [command for frame in told.answers if (command := decoded(frame)).opaque == opaque]
    assert len(found) == 1
    return [message.body for message in decode_messages(bytes(found[0].body))]


@BOTH
@pytest.mark.parametrize("code", [11, 361])
async def test_pulls_of_a_whole_queue(tmp_path: Path, encoding: Encoding, code: int) -> None:
    steps: list[Step] = [
        filled(),
        *(pull(n, n - 1, queue=0, code=code, encoding=encoding, maxMsgNums=5) for n in range(1, 14)),
    ]
    told = await same(tmp_path, steps, native_module())
    assert told.by_kernel == sum(min(5, 15 - n) for n in range(13))
    assert len(bodies(told, 1)) == 5


async def test_many_pulls_in_one_buffer_and_a_commit(tmp_path: Path) -> None:
    burst = b"".join(pull(n, n, queue=n % 3, flags=5, commitOffset=n, maxMsgNums=3) for n in range(1, 9))
    told = await same(tmp_path, [filled(), burst], native_module())
    assert told.by_kernel == 24


async def test_pulls_between_sends_of_the_same_buffer(tmp_path: Path) -> None:
    """One after the other; Python takes a buffer's sends and pulls by class, each in its order."""
    burst = send(1, body=b"one") + pull(2, 1) + send(3, body=b"two") + pull(4, 1) + send(5, queue=1)
    told = await pulls(tmp_path, [burst + pull(6, 1, queue=1)], native_module())
    assert [bodies(told, number) for number in (2, 4)] == [[b"one"], [b"one", b"two"]]
    assert told.by_kernel == 4


@pytest.mark.parametrize("wanted", ["t0", "t1", "t0 || t1", "none", "t0||none", ""])
async def test_tags(tmp_path: Path, wanted: str) -> None:
    steps: list[Step] = [filled(), *(pull(n, n, subscription=wanted, maxMsgNums=4) for n in range(6))]
    told = await same(tmp_path, steps, native_module())
    assert (told.by_kernel > 0) == (wanted != "none")


async def test_rare_tags_far_behind(tmp_path: Path) -> None:
    """More entries than are read at once, most of which do not match."""
    rare = {100, 2500, 2501, 4999}
    tagged = [f"UNIQ_KEY\x01U{n}\x02TAGS\x01{'rare' if n in rare else 'often'}" for n in range(5100)]
    sends = [b"".join(send(n + k, properties=tagged[n + k]) for k in range(100)) for n in range(0, 5100, 100)]
    steps: list[Step] = [*sends, pull(9001, 0, subscription="rare"), pull(9002, 102, subscription="rare", maxMsgNums=1)]
    told = await same(tmp_path, steps, native_module(), queue_file_bytes=20 * 3000)
    assert told.by_kernel == 5


@pytest.mark.parametrize(
    ("frame", "taken"),
    [
        (pull(1, 0), True),
        (pull(1, 0, commitOffset=-1), True),
        (pull(1, 0, maxMsgNums=0), True),
        (pull(1, 0, maxMsgNums=-5), True),
        (pull(1, 0, maxMsgBytes=300), True),
        (pull(1, 0, maxMsgBytes=1), True),  # the first is given whatever its size
        (pull(1, 0, bname="broker-a", ReqT=1), True),
        (pull(1, 0, subscription=None), True),
        (pull(1, 0, expressionType=None), True),
        (pull(1, 0, consumerGroup="pyromq-spark", maxMsgNums=2000), True),
        (pull(1, 99), False),
        (pull(1, 14), True),
        (pull(1, -1), False),
        (pull(1, 0, queue=3), False),  # has no file
        (pull(1, 0, queue=9), False),
        (pull(1, 0, queue="01"), False),
        (pull(1, 0, topic="Nowhere"), False),
        (pull(1, 0, topic="A\u00e4"), False),
        (pull(1, 0, flag=2), False),
        (pull(1, 0, body=b"x"), False),
        (pull(1, 0, flags=0), False),  # no heartbeat told of a subscription
        (pull(1, 0, expressionType="SQL92", subscription="a > 1"), False),
        (pull(1, 0, expressionType="NEVER"), False),
        (pull(1, 0, liteTopic="x"), False),
        (pull(1, 0, subscription='"'), False),
        (pull(1, 0, topic=None), False),
        (pull(1, "9" * 19), False),
        (pull(1, "9" * 30), False),
    ],
)
async def test_what_is_taken(tmp_path: Path, frame: bytes, taken: bool) -> None:
    told = await same(tmp_path, [filled(), frame], native_module())
    assert (told.by_kernel > 0) == taken


@pytest.mark.parametrize("setting", [{"whole_record_crc": False}, {"reject_pull_consumer_enable": True}])
async def test_settings_that_leave_pulls_to_python(tmp_path: Path, setting: dict[str, Any]) -> None:
    told = await same(tmp_path, [filled(), pull(1)], native_module(), **setting)
    assert told.by_kernel == 0


async def test_no_more_than_enough_is_answered_in_one_call(tmp_path: Path) -> None:
    """A small request asks for much: what is beyond half a megabyte takes its turns in Python."""
    sends = b"".join(send(n, body=b"y" * 20_000) for n in range(20))
    burst = b"".join(pull(100 + n, 1) for n in range(10))
    told = await pulls(tmp_path, [sends, burst], native_module(), commit_log_file_bytes=8 << 20)
    assert told.by_kernel == 3 * 12


async def test_damaged_records_and_gaps_are_left_to_python(tmp_path: Path) -> None:
    def harm(life: Virtual) -> None:
        queue = life.broker.store.queues.get("A", 0)
        assert queue is not None
        entry = queue.entry_at(5)
        assert entry is not None
        log = life.broker.store.commit_log
        file, inside = log.sequence.file_at(entry.position)
        file.pwrite(inside + 92, b"\xff")

    steps: list[Step] = [filled(), pull(1, 4), harm, pull(2, 4), pull(3, 6)]
    told = await same(tmp_path, steps, native_module())
    assert len(bodies(told, 1)) == len(bodies(told, 2)) + 1
    assert told.by_kernel == len(bodies(told, 1)) + len(bodies(told, 3))


async def test_expired_files(tmp_path: Path) -> None:
    """The log has lost its first file: what lay there is stepped over, or gone for the kernel too."""

    def expire(life: Virtual) -> None:
        life.broker.store.commit_log.drop_oldest()

    sends = [b"".join(send(n * 100 + k, body=b"z" * 900) for k in range(20)) for n in range(8)]
    steps: list[Step] = [
        *sends,
        pull(9001, 0),
        expire,
        pull(9002, 0),
        pull(9003, 100),
        *(pull(9010 + n, n) for n in range(0, 60, 7)),
    ]
    told = await same(tmp_path, steps, native_module(), commit_log_file_bytes=64 << 10)
    assert told.by_kernel > 0


# --- long polls -------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_held_pull_is_woken_by_a_message(tmp_path: Path, encoding: Encoding) -> None:
    steps: list[Step] = [
        pull(1, 1, flags=HOLD | BY_ITSELF, encoding=encoding),
        send(2, body=b"new"),
        send(3, body=b"more"),
    ]
    told = await same(tmp_path, steps, native_module())
    assert bodies(told, 1) == [b"new"]
    assert (told.by_kernel, told.held_by_kernel, told.held) == (1, 1, 0)


async def test_messages_of_one_turn_wake_a_pull_once(tmp_path: Path) -> None:
    held = b"".join(pull(n, 1, queue=n, flags=HOLD | BY_ITSELF) for n in range(3))
    told = await same(tmp_path, [held, filled(12)], native_module())
    assert (told.by_kernel, told.held_by_kernel) == (12, 3)


async def test_a_held_pull_whose_tags_do_not_come(tmp_path: Path) -> None:
    """It waits on behind what was looked at, and its time ends with an answer."""
    steps: list[Step] = [
        pull(1, 1, flags=HOLD | BY_ITSELF, subscription="t9", suspendTimeoutMillis=5000),
        filled(12),
        6.0,
    ]
    told = await same(tmp_path, steps, native_module())
    assert (told.by_kernel, told.held_by_kernel, told.held) == (0, 1, 0)
    assert 1 in map(opaque_of, told.answers)


async def test_a_held_pull_ends_with_its_time_or_its_connection(tmp_path: Path) -> None:
    steps: list[Step] = [pull(1, 1, flags=HOLD | BY_ITSELF, suspendTimeoutMillis=5000), 4.0]
    assert (await same(tmp_path, steps, native_module())).held == 1
    told = await same(tmp_path, [*steps, 2.0], native_module())
    assert (told.held, [opaque_of(frame) for frame in told.answers]) == (0, [1])


async def test_no_more_pulls_are_held_than_may_be(tmp_path: Path) -> None:
    steps: list[Step] = [pull(n, 1, queue=n % 3, flags=HOLD | BY_ITSELF) for n in range(5)]
    told = await same(tmp_path, steps, native_module(), max_held_pulls=3)
    assert (told.held, told.held_by_kernel) == (3, 3)


async def test_short_polls(tmp_path: Path) -> None:
    steps: list[Step] = [pull(1, 1, flags=HOLD | BY_ITSELF), 1.5]
    told = await same(tmp_path, steps, native_module(), long_polling_enable=False)
    assert (told.held, told.held_by_kernel) == (0, 1)


# --- anything -------------------------------------------------------------------------------------------------------

request = st.builds(
    pull,
    st.integers(1, 1 << 20),
    st.integers(0, 30),
    queue=st.integers(0, 3),
    code=st.sampled_from([11, 361]),
    flags=st.sampled_from([4, 5, 6, 7]),
    encoding=st.sampled_from(list(Encoding)),
    commitOffset=st.integers(-1, 20),
    maxMsgNums=st.integers(-1, 40),
    maxMsgBytes=st.sampled_from([None, -1, 0, 1, 500, 1 << 20]),
    subscription=st.sampled_from([None, "*", "t0", "t1", "t2", "t0||t1", ""]),
    suspendTimeoutMillis=st.sampled_from([0, 1000, 15_000]),
)
message = st.builds(
    lambda number, queue, size, tag: send(
        (1 << 21) + number,
        queue=queue,
        body=b"b" * size,
        properties=f"UNIQ_KEY\x01U{number}\x02TAGS\x01t{tag}\x02",
    ),
    st.integers(0, 1 << 16),
    st.integers(0, 2),
    st.integers(1, 300),
    st.integers(0, 2),
)
buffer = st.one_of([st.lists(kind, min_size=1, max_size=12) for kind in (request, message)]).map(b"".join)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    steps=st.lists(st.one_of(buffer, st.sampled_from([0.5, 20.0])), min_size=1, max_size=8), first=st.integers(0, 90)
)
def test_random_stores_and_requests(tmp_path: Path, steps: list[bytes | float], first: int) -> None:
    asyncio.run(_random(tmp_path, [filled(first) if first else 0.1, *steps]))


async def _random(tmp_path: Path, steps: list[bytes | float]) -> None:
    """Large log files: where one ends, a buffer is stored in two parts, and a held pull may wake between them."""
    await same(tmp_path, steps, native_module(), queue_file_bytes=20 * 16)


async def test_pulls_over_the_ends_of_log_files(tmp_path: Path) -> None:
    steps: list[Step] = [filled(90), *(pull(n, n, queue=n % 3, maxMsgNums=32) for n in range(30))]
    told = await same(tmp_path, steps, native_module(), commit_log_file_bytes=16 << 10, queue_file_bytes=20 * 16)
    assert told.by_kernel > 0


async def test_on_a_real_disk(tmp_path: Path) -> None:
    """The kernel reads by itself there, file descriptors included that are closed and opened again meanwhile."""

    def close_files(life: Virtual) -> None:
        life.broker.store.commit_log._files.close()
        queue = life.broker.store.queues.get("A", 0)
        assert queue is not None
        queue.entries.sequence._files.close()

    steps: list[Step] = [
        filled(90),
        pull(1, 0),
        close_files,
        pull(2, 3),
        filled(60),
        pull(3, 29),
        pull(4, 20, subscription="t1"),
    ]
    seen = []
    for name, module in (("native", native_module()), ("python", None)):
        disk = RealDisk(tmp_path / name, create=True)
        seen.append(
            await pulls(tmp_path, steps, module, disk=disk, commit_log_file_bytes=64 << 10, queue_file_bytes=20 * 40)
        )
    assert seen[0][:5] == seen[1][:5]
    assert seen[0].by_kernel > 60
