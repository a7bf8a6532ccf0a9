"""Who is told to pull from a slave: groups that are far behind, where slaves are read (slaveReadEnable)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.running import running_broker
from tests.broker.virtual import virtual_broker


@pytest.mark.parametrize(("reads", "offset", "suggested"), [(True, 0, "1"), (True, 39, "0"), (False, 0, "0")])
async def test_a_group_that_is_far_behind_is_sent_to_a_slave(
    tmp_path: Path, reads: bool, offset: int, suggested: str
) -> None:
    """Far is more than a share of memory; here memory has next to nothing."""
    async with virtual_broker(tmp_path, slave_read_enable=reads, access_message_in_memory_max_ratio=1) as broker:
        for _ in range(40):
            assert (await broker.send(body=b"x" * 500)).code == 0
        near = broker.broker.pulls.slave_reads
        near._near_bytes = 2_000
        answer = await broker.pull(offset=offset, maxMsgNums=1)
        assert (answer.code, answer.fields["suggestWhichBrokerId"]) == (0, suggested)
        assert near.vary is reads


async def test_the_kernel_suggests_what_the_handlers_do(tmp_path: Path) -> None:
    """Over a socket, where the kernel answers: near the end of the log, so the master."""
    async with running_broker(tmp_path, slave_read_enable=True) as broker:
        for _ in range(3):
            assert (await broker.send()).code == 0
        for _ in range(2):
            answer = await broker.pull()
            assert (answer.code, answer.fields["suggestWhichBrokerId"]) == (0, "0")
