"""Queue entries that the native kernel reads ahead for pulls that go on where the one before ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.testing.simulated_disk import SimulatedFile
from tests.broker.virtual import Virtual
from tests.kernel.pull_frames import Step, pull, pulls, same
from tests.kernel.test_native_send import send
from tests.kernel.test_pull_verdicts import native_life
from tests.kernel.twins import native_module

ALWAYS = 10_000  # opaques of sends, so that they are not taken for those of pulls


def sends(first: int, count: int, body: str = "b") -> bytes:
    """To queue 0 of topic A, which has one message already."""
    return b"".join(send(ALWAYS + n, body=f"{body}{n}".encode()) for n in range(first, first + count))


@pytest.fixture
def entry_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of what is read of queue files without waiting."""
    lengths: list[int] = []
    read = SimulatedFile.pread_resident

    def noting(file: SimulatedFile, offset: int, length: int) -> bytes | None:
        if file.name.startswith("consumequeue/A/0/"):
            lengths.append(length)
        return read(file, offset, length)

    monkeypatch.setattr(SimulatedFile, "pread_resident", noting)
    return lengths


async def test_a_drain_over_the_ends_of_windows_and_files(tmp_path: Path) -> None:
    """With messages that arrive meanwhile, to the last one, by steps that fit neither."""
    steps: list[Step] = [sends(0, 1000)]
    for number, offset in enumerate(range(0, 1201, 13)):
        steps.append(pull(number, offset, maxMsgNums=13))
        if number % 10 == 9:
            steps.append(sends(2000 + number, 25))
    told = await same(tmp_path, steps, native_module(), queue_file_bytes=20 * 700, commit_log_file_bytes=8 << 20)
    assert told.by_kernel == 1001 + 9 * 25 - (1226 - 1209)


async def test_pulls_in_order_share_a_read(tmp_path: Path, entry_reads: list[int]) -> None:
    steps: list[Step] = [sends(0, 511), 30.0, lambda _: entry_reads.clear()]  # all is flushed
    steps += [pull(n, 32 * n) for n in range(16)]
    assert (await pulls(tmp_path, steps, native_module(), commit_log_file_bytes=8 << 20)).by_kernel == 512
    assert entry_reads == [20 * 512]


async def test_pulls_here_and_there_read_what_they_need(tmp_path: Path, entry_reads: list[int]) -> None:
    steps: list[Step] = [sends(0, 511), 30.0, lambda _: entry_reads.clear()]  # all is flushed
    steps += [pull(n, 400 - 50 * n) for n in range(4)]
    assert (await pulls(tmp_path, steps, native_module(), commit_log_file_bytes=8 << 20)).by_kernel == 128
    assert entry_reads == [20 * 32] * 4


async def test_more_readers_than_are_read_ahead_for(tmp_path: Path, entry_reads: list[int]) -> None:
    """They go without, until others have not read for a while."""
    ahead: list[int] = []

    def count(_: Virtual) -> None:
        ahead.append(sum(length > 20 * 5 for length in entry_reads))
        entry_reads.clear()

    steps: list[Step] = [sends(0, 99), 30.0, count]
    for turn, first in enumerate((0, 0, 60, 60)):  # in the end most are gone
        groups = [pull(100 * turn + n, 5 * turn, maxMsgNums=5, consumerGroup=f"G{n}") for n in range(first, 70)]
        steps += [2.0, b"".join(groups), count] if turn == 2 else [b"".join(groups), count]
    told = await pulls(tmp_path, steps, native_module())
    assert told.by_kernel == 2 * (70 + 10) * 5
    assert ahead[1:] == [64, 0, 6, 0]


async def test_what_was_read_ahead_goes_with_its_topic(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 0, maxMsgNums=3))
        await one.write(pull(2, 3, maxMsgNums=3))
        before = one.by_kernel
        one.delete()
        one.broker.topics.put(TopicConfig(topic_name="A", read_queue_nums=4, write_queue_nums=4))
        for n in range(9):
            await one.write(sends(n, 1, "anew"))
        await one.write(pull(3, 6, maxMsgNums=3))
        assert [one.count(number) for number in (1, 2, 3)] == [3, 3, 3]
        answer = next(answer for answer in one.peer.received if answer.opaque == 3)
        assert all(b"anew%d" % n in bytes(answer.body) for n in (6, 7, 8))
        assert one.by_kernel == before + 3
