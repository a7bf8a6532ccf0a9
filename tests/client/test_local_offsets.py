"""Offsets of a broadcast member in its file: what a damaged or missing one costs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from pyromq.client.consume.group_calls import LocalOffsets
from pyromq.protocol.bodies.keyed import MessageQueue

QUEUE = MessageQueue(broker_name="a", queue_id=0, topic="T")


async def written(path: Path) -> None:
    offsets = LocalOffsets(path)
    for offset in (5, 6):
        await offsets.save({QUEUE: offset})


async def test_what_was_saved_is_read_by_the_next_life(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    await written(path)
    assert await LocalOffsets(path).read(QUEUE) == 6
    assert path.read_bytes() == b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:6}}'  # as Java reads it


async def test_many_that_save_at_once_leave_a_whole_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As when all queues of a topic that was made again begin anew."""
    path = tmp_path / "offsets.json"
    offsets = LocalOffsets(path)
    queues = [MessageQueue(broker_name="a", queue_id=number, topic="T") for number in range(50)]
    await asyncio.gather(*(offsets.save({queue: queue.queue_id}) for queue in queues))
    assert "offsets not written" not in caplog.text
    assert [await LocalOffsets(path).read(queue) for queue in queues] == [*range(50)]
    assert sorted(os.listdir(tmp_path)) == ["offsets.json", "offsets.json.bak"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
async def test_a_damaged_file_is_told_and_the_one_before_it_counts(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offsets.json"
    await written(path)
    path.write_bytes(content)
    assert await LocalOffsets(path).read(QUEUE) == 5
    assert str(path) in caplog.text


async def test_without_the_file_the_one_before_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    await written(path)
    path.unlink()
    assert await LocalOffsets(path).read(QUEUE) == 5


async def test_if_both_are_damaged_the_member_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "offsets.json"
    await written(path)
    for one in (path, tmp_path / "offsets.json.bak"):
        one.write_bytes(b"")
    assert await LocalOffsets(path).read(QUEUE) is None
    assert caplog.text.count("offsets cannot be read") == 2
