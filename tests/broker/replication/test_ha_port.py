"""The HA port over streams in memory: where a stream begins, what it carries, whose reports count, who is let in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyromq.broker.replication.leading.ha_port import HaPort, is_allowed
from pyromq.broker.replication.leading.sender import GATHER_S
from pyromq.broker.replication.settings import BrokerRole, ReplicationSettings
from pyromq.protocol.replication.classic import Chunk, ChunkReader, encode_report
from pyromq.testing.clock import ManualClock
from pyromq.transport.memory import MemoryStream, pair

FILE = 1000


class Log:
    """A log in memory whose byte at each position is known. What is below `cold` is not in the page cache."""

    def __init__(self, start: int, end: int, cold: int = 0) -> None:
        self.start, self.end, self.cold = start, end, cold

    @property
    def last_file(self) -> int:
        return self.end - self.end % FILE

    def bytes_of(self, position: int, most: int) -> bytes:
        until = min(position + most, position - position % FILE + FILE, self.end)
        return bytes(at % 251 for at in range(position, until))

    def read_now(self, position: int, most: int) -> bytes | None:
        return None if position < self.cold else self.bytes_of(position, most)

    async def read_later(self, position: int, most: int) -> bytes:
        await asyncio.sleep(0)
        return self.bytes_of(position, most)


class Slave(asyncio.Protocol):
    """The other end of a connection to the port."""

    stream: MemoryStream

    def __init__(self) -> None:
        self.reader = ChunkReader()
        self.chunks: list[Chunk] = []
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self.chunks += self.reader.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    @property
    def received(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)


class World:
    def __init__(self, log: Log, members: Iterable[str], settings: dict[str, Any]) -> None:
        self.log, self.clock = log, ManualClock()
        self.settings = ReplicationSettings(**settings)
        self.on_append: list[Any] = []
        self.changes = 0

        async def known() -> Iterable[str]:
            return members

        self.port = HaPort(log, self.clock, lambda: self.settings, known, self.changed, self.on_append)

    def changed(self) -> None:
        self.changes += 1

    async def connect(self, *reports: int, host: str = "127.0.0.1") -> Slave:
        slave = Slave()
        slave.stream, theirs = pair(f"{host}:40000", "127.0.0.1:10912")
        slave.stream.set_protocol(slave)
        sender = self.port.welcome(f"{host}:40000")
        assert sender is not None
        theirs.set_protocol(sender)
        sender.connection_made(theirs)
        for report in reports:
            await self.report(slave, report)
        return slave

    async def report(self, slave: Slave, position: int) -> None:
        slave.stream.write(encode_report(position))
        await self.clock.settle()

    async def append(self, size: int) -> None:
        self.log.end += size
        for listener in self.on_append:
            listener()
        await self.clock.settle()
        await self.clock.advance(GATHER_S)


@asynccontextmanager
async def world(
    start: int = 0, end: int = 2_500, cold: int = 0, members: Iterable[str] = (), **settings: Any
) -> AsyncIterator[World]:
    made = World(Log(start, end, cold), members, settings)
    try:
        yield made
    finally:
        await made.port.close()


@pytest.mark.parametrize(
    ("report", "from_first", "begins"), [(0, False, 2_000), (0, True, 0), (1, False, 1), (700, False, 700)]
)
async def test_the_first_report_decides_where_the_stream_begins(report: int, from_first: bool, begins: int) -> None:
    async with world(ha_start_from_first=from_first) as here:
        slave = await here.connect(report)
        assert slave.chunks[0].position == begins
        assert slave.received == b"".join(
            here.log.bytes_of(at, FILE) for at in (begins, *range(begins - begins % FILE + FILE, 2_500, FILE))
        )


@pytest.mark.parametrize("cold", [0, 2_400])
async def test_chunks_stay_in_one_file_and_within_the_batch_size(cold: int) -> None:
    async with world(cold=cold, ha_transfer_batch_size=300) as here:
        slave = await here.connect(1)
        assert [(chunk.position, len(chunk.data)) for chunk in slave.chunks] == [
            (1, 300), (301, 300), (601, 300), (901, 99), (1000, 300), (1300, 300), (1600, 300), (1900, 100),
            (2000, 300), (2300, 200),
        ]  # fmt: skip


async def test_what_is_appended_follows_at_once_and_a_lone_master_pays_nothing() -> None:
    async with world() as here:
        assert here.on_append == []
        slave = await here.connect(2_500)
        await here.append(10)
        assert slave.chunks == [Chunk(2_500, here.log.bytes_of(2_500, 10))]
        slave.stream.abort()
        await here.clock.settle()
        assert (here.on_append, here.port.senders) == ([], [])


@pytest.mark.parametrize(("role", "count"), [(BrokerRole.ASYNC_MASTER, 2), (BrokerRole.SYNC_MASTER, 3)])
async def test_appends_within_a_millisecond_leave_together_where_nobody_waits(role: BrokerRole, count: int) -> None:
    async with world(broker_role=role) as here:
        slave = await here.connect(2_500)
        await here.append(10)
        for _ in range(2):
            here.log.end += 10
            here.on_append[0]()
            await here.clock.settle()
        await here.clock.advance(GATHER_S)
        assert len(slave.chunks) == count
        assert slave.received == here.log.bytes_of(2_500, 30)


@pytest.mark.parametrize("report", [2_501, 1 << 62, 999])
async def test_a_slave_that_this_log_cannot_go_on_from_is_told_so(
    report: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(start=1_000) as here:
        slave = await here.connect(report)
        assert slave.is_lost
        assert slave.chunks == []
        assert sum("its log does not go on where this one can" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("second", [2_499, 2_511, 1 << 62, 0])
async def test_a_report_that_cannot_be_true_ends_the_connection_and_nothing_it_said_counts(second: int) -> None:
    async with world() as here:
        liar, honest = await here.connect(2_500), await here.connect(2_500)
        await here.append(10)
        await here.report(liar, second)
        assert liar.is_lost
        assert [sender.acked for sender in here.port.senders] == [2_500]
        await here.report(honest, 2_510)
        assert [sender.acked for sender in here.port.senders] == [2_510]
        assert not honest.is_lost


@pytest.mark.parametrize("garbage", [b"\xff" * 8, b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01" * 4])
async def test_who_speaks_something_else_is_closed(garbage: bytes) -> None:
    async with world() as here:
        stranger = await here.connect()
        stranger.stream.write(garbage)
        await here.clock.settle()
        assert stranger.is_lost
        assert here.port.senders == []


async def test_a_half_report_is_given_up_after_the_housekeeping_interval() -> None:
    async with world() as here:
        slave = await here.connect()
        slave.stream.write(b"\x00\x00\x00")
        await here.clock.advance(seconds=19)
        assert not slave.is_lost
        await here.clock.advance(seconds=2)
        assert slave.is_lost


async def test_heartbeats_say_what_comes_next_and_reports_keep_the_connection() -> None:
    async with world() as here:
        slave = await here.connect(2_500)
        for _ in range(8):
            await here.clock.advance(seconds=6)
            await here.report(slave, 2_500)
        assert not slave.is_lost
        assert {*slave.chunks} == {Chunk(2_500, b"")}
        assert 8 <= len(slave.chunks) <= 10
        await here.clock.advance(seconds=21)
        assert slave.is_lost


async def test_the_rate_is_held(caplog: pytest.LogCaptureFixture) -> None:
    async with world(end=900, ha_flow_control_enable=True, max_ha_transfer_byte_in_second=300) as here:
        slave = await here.connect(1)
        assert len(slave.received) == 300
        await here.clock.advance(seconds=1.5)
        assert len(slave.received) == 600
        await here.clock.advance(seconds=2)
        assert len(slave.received) == 899


@pytest.mark.parametrize(
    ("host", "allowed", "members", "is_let_in"),
    [
        ("127.0.0.1", (), (), True),
        ("::1", ("10.0.0.7",), (), True),
        ("10.0.0.7", (), ("10.0.0.7",), True),
        ("10.0.0.8", (), ("10.0.0.7",), False),
        ("10.0.0.8", ("10.0.0.0/24",), (), True),
        ("10.0.0.7", ("10.1.0.0/16",), ("10.0.0.7",), False),
        ("nonsense", (), ("nonsense",), False),
    ],
)
def test_who_may_connect(host: str, allowed: tuple[str, ...], members: tuple[str, ...], is_let_in: bool) -> None:
    assert is_allowed(host, allowed, members) == is_let_in


async def test_strangers_get_no_log_and_share_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with world(members=["10.0.0.7:10911"]) as here:
        member = await here.connect(1, host="10.0.0.7")
        strangers = [await here.connect(1, host="10.0.0.9") for _ in range(5)]
        await here.clock.settle()
        assert [stranger.is_lost for stranger in strangers] == [True] * 5
        assert all(stranger.chunks == [] for stranger in strangers)
        assert member.received
        assert sum("strangers get no log" in line for line in caplog.messages) == 1


async def test_what_a_slave_has_not_got_is_wanted_until_it_is_too_far_behind() -> None:
    async with world(ha_hold_bytes=1_000) as here:
        assert here.port.wanted_from() is None
        slave = await here.connect(2_000)
        assert here.port.wanted_from() == 2_000
        await here.report(slave, 2_500)
        assert here.port.wanted_from() == 2_500
        slave.stream.abort()
        await here.clock.settle()
        await here.append(1_000)
        assert here.port.wanted_from() == 2_500  # it has left, and may be back
        await here.append(1)
        assert here.port.wanted_from() is None


async def test_a_slave_that_begins_at_the_last_file_wants_nothing_before_it() -> None:
    async with world(ha_hold_bytes=10_000) as here:
        await here.connect(0)
        assert here.port.wanted_from() == 2_000
