"""Daemons under small limits of the system, as a user runs them: idle peers take what they may, nothing else fails."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from pyromq.errors import CallFailed
from pyromq.machine.descriptors import divide
from pyromq.model.codes import RequestCode
from tests.broker.running import Running
from tests.machine.daemons import IdlePeers, broker, free_port, name_server, sent_all, start

TOPICS = [f"Topic{number}" for number in range(30)]
FILES = resource.RLIMIT_NOFILE


async def connected(by: Running) -> None:
    """Its first request was answered: idle peers have left, and the server has seen that."""
    for _ in range(100):
        try:
            assert (await by.send("Topic0")).code == 0
            return
        except CallFailed:
            await asyncio.sleep(0.1)
    pytest.fail("no place for a new client although the others have left")


@pytest.mark.parametrize("kernel", ["python", "native"])
@pytest.mark.parametrize("limit", [128, 256, 1024])
async def test_idle_connections_up_to_the_descriptor_limit_keep_nobody_from_sending(
    tmp_path: Path, limit: int, kernel: str
) -> None:
    shares, fast_port = divide(limit, queue_files=1024), free_port()
    async with broker(tmp_path, kernel, {FILES: limit}, fast_port, FLUSH_MODE="SYNC_FLUSH") as one:
        await sent_all(one, TOPICS[:1])
        main, fast = IdlePeers(int(one.address.rpartition(":")[2])), IdlePeers(fast_port)
        await main.come(limit + 20)
        kept = shares.connections // 8  # for the other listener
        assert await main.left(shares.connections - kept - 1) == shares.connections - kept - 1
        await fast.come(kept + 20)
        assert await fast.left(kept) == kept
        await sent_all(one, TOPICS)
        state = await one.state()
        assert (state["ready"], state["troubles"]) == (True, [])
        assert state["connections"] == shares.connections
        await main.go()
        await fast.go()
        async with one.another() as late:
            await connected(late)
            await sent_all(late, TOPICS)
        log = await one.end()
    assert "takes no more messages" not in log
    assert "Traceback" not in log
    assert log.count("connection refused") <= 8  # one line in five seconds for each listener
    assert f'limit="open files" value={shares.connections}' in log
    async with broker(tmp_path, kernel, {FILES: limit}) as again:
        for topic in TOPICS:
            assert (await again.call(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=0)).fields["offset"] in "234"
        log = await again.end()
    assert "clean_stop=True" in log


@pytest.mark.parametrize("limit", [128, 1024])
async def test_idle_connections_at_a_name_server_keep_nobody_from_asking(tmp_path: Path, limit: int) -> None:
    shares = divide(limit)
    async with name_server(tmp_path, {FILES: limit}) as one:
        assert (await one.call(RequestCode.PUT_KV_CONFIG, namespace="N", key="k", value="1")).code == 0
        idle = IdlePeers(int(one.address.rpartition(":")[2]))
        await idle.come(limit + 20)
        assert await idle.left(shares.connections - 1) == shares.connections - 1
        assert (await one.call(RequestCode.PUT_KV_CONFIG, namespace="N", key="k", value="2")).code == 0
        assert (await one.call(RequestCode.GET_KV_CONFIG, namespace="N", key="k")).fields["value"] == "2"
        await idle.go()
        log = await one.end()
    assert "Traceback" not in log
    assert f'limit="open files" value={shares.connections}' in log


async def test_a_limit_that_cannot_work_is_refused_with_what_to_do() -> None:
    process = await start("broker", "--listen", "127.0.0.1:0", limits={FILES: 90})
    output, errors = await process.communicate()
    assert (process.returncode, output) == (78, b"")
    assert b"this process may open 90 files, and needs 96 at least: raise the limit (ulimit -n 65536" in errors
