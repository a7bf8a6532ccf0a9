"""Daemons under small limits of the system, as a user runs them: idle peers take what they may, nothing else fails."""

from __future__ import annotations

import asyncio
import resource
import struct
from pathlib import Path

import pytest

from pyromq.errors import CallFailed
from pyromq.machine.descriptors import divide
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running
from tests.machine.daemons import Daemon, both, broker, free_port, name_server, sent_all, start
from tests.support import require

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
        main, fast = one.idle_peers(), one.idle_peers(fast_port)
        await main.come(limit + 20)
        kept = shares.connections // 8  # for the other listener
        assert await main.left(shares.connections - kept - 1) == shares.connections - kept - 1
        await fast.come(kept + 20)
        assert await fast.left(kept) == kept
        await sent_all(one, TOPICS)
        state = await one.state()
        assert (state["ready"], state["troubles"]) == (True, [])
        assert state["connections"] == state["openFiles"]["connections"] == shares.connections
        assert state["openFiles"]["limit"] == limit
        await main.go()
        await fast.go()
        async with one.another() as late:
            await connected(late)
            await sent_all(late, TOPICS)
        log = await one.end()
    assert "takes no more messages" not in log
    assert "Traceback" not in log
    assert log.count("connection refused") <= limit // 4  # one line in five seconds, and not one for each
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
        idle = one.idle_peers()
        await idle.come(limit + 20)
        assert await idle.left(shares.connections - 1) == shares.connections - 1
        assert (await one.call(RequestCode.PUT_KV_CONFIG, namespace="N", key="k", value="2")).code == 0
        assert (await one.call(RequestCode.GET_KV_CONFIG, namespace="N", key="k")).fields["value"] == "2"
        await idle.go()
        log = await one.end()
    assert "Traceback" not in log
    assert f'limit="open files" value={shares.connections}' in log


async def test_idle_connections_at_one_of_two_daemons_in_a_process_leave_the_other_its_own(tmp_path: Path) -> None:
    shares = divide(128, queue_files=1024)
    async with both(tmp_path, {FILES: 128}) as (name_server_address, one):
        await sent_all(one, TOPICS[:1])
        idle = one.idle_peers(int(name_server_address.rpartition(":")[2]))
        await idle.come(120)
        kept = shares.connections // 8  # for each of the broker's three listeners
        registered = 1  # the broker is connected to the name server too
        most = shares.connections - 3 * kept - registered
        assert await idle.left(most) == most
        async with one.another() as late:
            await connected(late)
            await sent_all(late, TOPICS)
        await idle.go()
        assert "Traceback" not in await one.end()


@pytest.mark.parametrize("kernel", ["python", "native"])
@pytest.mark.parametrize("held", [0, 1 << 40], ids=["a share of it may be held", "all of it may be held"])
async def test_peers_that_fill_the_address_space_are_cut_off_and_the_broker_lives(
    tmp_path: Path, kernel: str, held: int
) -> None:
    """Twice what there is, by frames that never end, then by sends that do."""
    limits = {resource.RLIMIT_AS: 384 << 20}
    async with broker(tmp_path, kernel, limits, HELD_BYTES=held, COMMIT_LOG_FILE_BYTES=32 << 20) as one:
        await sent_all(one, TOPICS[:1])
        stalled = one.idle_peers()
        await stalled.come(50, struct.pack(">iI", 16 << 20, 100) + bytes((16 << 20) - 100))
        for _ in range(20):
            await sent_all(one, TOPICS[:5])
        assert await stalled.left(24) <= 24
        async with one.another() as late:
            await connected(late)
            answers = await asyncio.gather(*(late.send("Topic0", bytes(3 << 20)) for _ in range(20)))
            allowed = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY)
            assert [answer.remark for answer in answers if answer.code not in allowed] == []
        await stalled.go()
        await sent_all(one, TOPICS)
        assert (await one.state())["ready"]
        log = await one.end()
    assert "too much held for peers" in log if not held else "no memory for a peer" in log
    assert "Traceback" not in log
    async with broker(tmp_path, kernel, limits, COMMIT_LOG_FILE_BYTES=32 << 20) as again:
        assert "clean_stop=True" in await again.end()


async def test_peers_that_fill_the_address_space_of_a_name_server_are_cut_off(tmp_path: Path) -> None:
    async with name_server(tmp_path, {resource.RLIMIT_AS: 256 << 20}, HELD_BYTES=1 << 40) as one:
        stalled = one.idle_peers()
        await stalled.come(40, struct.pack(">iI", 16 << 20, 100) + bytes((16 << 20) - 100))
        for number in range(20):
            put = await one.call(RequestCode.PUT_KV_CONFIG, namespace="N", key=number, value="v" * 1000)
            assert put.code == 0
        assert await stalled.left(16) <= 16
        await stalled.go()
        log = await one.end()
    assert "no memory for a peer" in log
    assert "Traceback" not in log


async def seen_connections(one: Daemon, count: int) -> bool:
    for _ in range(600):
        if (await one.state())["connections"] == count:
            return True
        await asyncio.sleep(0.1)
    return False


def memory_of(process: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["python", "native"])
async def test_ten_thousand_idle_connections(tmp_path: Path, kernel: str) -> None:
    """They cost little, all stay, and a canary goes on; half of them leave at once, and come back."""
    soft, hard = resource.getrlimit(FILES)
    require(hard >= 16_000, f"the hard limit of open files is {hard}, 16,000 are needed")
    resource.setrlimit(FILES, (16_000, hard))
    try:
        async with broker(tmp_path, kernel, {FILES: 16_000}) as one:
            await sent_all(one, TOPICS[:1])
            before = memory_of(one.process.pid)
            first, second = one.idle_peers(), one.idle_peers()
            for idle in (first, second):
                await idle.come(5_000)
            assert await seen_connections(one, 10_001)
            print(f"{(memory_of(one.process.pid) - before) / 10_000:.0f} bytes for each idle connection")
            await sent_all(one, TOPICS)
            await first.go()
            await sent_all(one, TOPICS)
            await first.come(5_000)
            assert await seen_connections(one, 10_001)
            await sent_all(one, TOPICS)
            await first.go()
            await second.go()
            assert "Traceback" not in await one.end()
    finally:
        resource.setrlimit(FILES, (soft, hard))


async def test_a_limit_that_cannot_work_is_refused_with_what_to_do() -> None:
    process = await start("broker", "--listen", "127.0.0.1:0", limits={FILES: 90})
    output, errors = await process.communicate()
    assert (process.returncode, output) == (78, b"")
    assert b"this process may open 90 files, and needs 96 at least: raise the limit (ulimit -n 65536" in errors
