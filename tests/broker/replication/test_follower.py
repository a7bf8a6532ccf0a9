"""A slave follows a master's log, on virtual time and an in-memory network: begins, goes on, comes back, stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyromq.broker.replication.following.follower import FollowSettings
from pyromq.broker.replication.following.slave_stream import SlaveStream
from pyromq.protocol.replication.classic import REPORT
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.memory import MemoryNetwork
from tests.broker.replication.scripted_master import PLACE, Following, ScriptedMaster
from tests.crash.lives import finish
from tests.golden_ha import STREAM_BYTES, classic_stream, log_bytes, unpack_stores
from tests.store.small import bodies, opened, put
from tests.store.test_following import JAVA_PAIR, assert_same, filled, log_of, send


class Pair:
    """A master that streams a store, and a slave with an empty one."""

    def __init__(self, master: MessageStore, chunk_bytes: int = 64 << 10, piece: int = 1000) -> None:
        self.clock, self.network = ManualClock(), MemoryNetwork(chunk_bytes)
        self.master = ScriptedMaster(master, self.clock, self.network, piece)

    def slave(self, store: MessageStore, settings: FollowSettings | None = None) -> Following:
        return Following(store, self.clock, self.network, settings)


@pytest.mark.parametrize(("chunk_bytes", "piece"), [(1, 300), (7, 1000), (100, 13), (64 << 10, 8192)])
async def test_an_empty_slave_gets_everything_however_the_bytes_come(chunk_bytes: int, piece: int) -> None:
    both = Pair(filled(20 if chunk_bytes == 1 else 60), chunk_bytes, piece)
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.settle(30_000 if chunk_bytes < 10 else 3_000)
        assert_same(both.master.store, slave.store)
        assert slave.follower.is_connected
        assert slave.joins == 1
        (stream,) = both.master.streams
        assert stream.reports[0] > 0  # a report of 0 would have meant the master's last file
        assert stream.reports == sorted(stream.reports)
        assert stream.reports[-1] == slave.store.commit_log.end


async def test_a_slave_begins_where_the_masters_log_does() -> None:
    master = filled()
    finish(master.drop_oldest_log_file())
    both = Pair(master)
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.settle(2_000)
        assert both.master.streams[0].reports[0] == master.commit_log.start > 0
        assert_same(master, slave.store)


async def test_an_empty_master_is_followed_from_its_first_record_on() -> None:
    both = Pair(opened(SimulatedDisk()))
    async with both.slave(opened(SimulatedDisk())) as slave:
        assert both.master.streams[0].reports == [0]
        put(both.master.store, "first", "second")
        both.master.streams[0].go_on()
        await both.clock.settle()
        assert bodies(slave.store) == [b"first", b"second"]


async def test_what_comes_later_arrives_and_is_reported() -> None:
    both = Pair(filled(5))
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.settle(500)
        put(both.master.store, "later")
        both.master.streams[0].go_on()
        await both.clock.settle()
        assert bodies(slave.store) == bodies(both.master.store)
        assert both.master.streams[0].reports[-1] == both.master.store.commit_log.end


async def test_a_slave_that_comes_back_goes_on_at_its_end() -> None:
    both, store = Pair(filled()), opened(SimulatedDisk())
    send(both.master.store, store, until=both.master.store.commit_log.end // 2)
    async with both.slave(store) as slave:
        await both.clock.settle(2_000)
        assert_same(both.master.store, slave.store)
        assert both.master.streams[0].reports[0] > 0


async def test_a_master_that_goes_and_returns_is_found_again() -> None:
    both = Pair(filled())
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.settle(2_000)
        both.master.go()
        await both.clock.advance(60)
        assert not slave.follower.is_connected
        assert slave.follower.stopped is None
        assert slave.looks  # whoever knows where the master is was asked
        put(both.master.store, "meanwhile")
        both.master.come()
        await both.clock.advance(6)
        assert slave.follower.is_connected
        assert_same(both.master.store, slave.store)


async def test_reports_go_on_in_silence_and_a_master_without_a_sign_of_life_is_left() -> None:
    both = Pair(filled(3))
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.settle(500)
        (stream,) = both.master.streams
        reports = len(stream.reports)
        for _ in range(4):
            await both.clock.advance(5)
            stream.heartbeat()
            await both.clock.settle()
        assert len(stream.reports) == reports + 4
        assert not stream.is_lost
        await both.clock.advance(21)
        assert stream.is_lost
        assert slave.follower.is_connected  # anew: the master was there, and silent
        assert len(both.master.streams) == 2


async def test_a_report_says_what_is_on_the_medium_where_that_is_wanted() -> None:
    both = Pair(filled(20))
    async with both.slave(opened(SimulatedDisk()), FollowSettings(after_flush=True)) as slave:
        await both.clock.settle(2_000)
        assert both.master.streams[0].reports[-1] == slave.store.flushed.value == both.master.store.commit_log.end


# --- what is not taken ---------------------------------------------------------------------------------------------


async def test_a_damaged_record_is_asked_for_again_and_nothing_behind_it_is_taken() -> None:
    both = Pair(filled(30), piece=8192)
    times = 2

    def damaged(position: int, data: bytes) -> bytes:
        nonlocal times
        if not times or len(data) < 2000:
            return data
        times -= 1
        return data[:1500] + bytes([data[1500] ^ 1]) + data[1501:]

    both.master.turned = damaged
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.settle(500)
        (stream,) = both.master.streams
        assert stream.is_lost
        assert max(stream.reports) < 3000
        await both.clock.advance(10)
        assert_same(both.master.store, slave.store)
        assert slave.follower.stopped is None


async def test_after_three_times_it_stops_and_says_so() -> None:
    both = Pair(filled(30), piece=8192)
    both.master.turned = lambda position, data: data[:100] + b"\xff" * 20 + data[120:]
    async with both.slave(opened(SimulatedDisk())) as slave:
        await both.clock.advance(30)
        assert len(both.master.streams) == 3
        assert "has stopped following master:10911" in slave.follower.state
        assert "3 times" in slave.follower.state
        await both.clock.advance(600)
        assert len(both.master.streams) == 3
        both.master.turned = lambda position, data: data
        slave.place = None  # it goes, and comes back: an operator has looked at it
        await both.clock.advance(2)
        slave.place = PLACE
        await both.clock.advance(5)
        assert_same(both.master.store, slave.store)


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 40, bytes(8) + b"\x7f\xff\xff\xff"])
async def test_something_else_at_the_ha_port_is_not_taken(noise: bytes) -> None:
    both = Pair(filled(5))
    both.master.sends = False
    async with both.slave(opened(SimulatedDisk())) as slave:
        end = slave.store.commit_log.end
        both.master.streams[0].transport.write(noise)
        await both.clock.settle()
        assert both.master.streams[0].is_lost
        assert slave.store.commit_log.end == end
        both.master.sends = True
        await both.clock.advance(10)
        assert_same(both.master.store, slave.store)


Change = Callable[[Pair, MessageStore], None]


def other_size(both: Pair, store: MessageStore) -> None:
    both.master.file_bytes = 1 << 30


def other_name(both: Pair, store: MessageStore) -> None:
    both.master.settings["brokerName"] = "b"


def other_cluster(both: Pair, store: MessageStore) -> None:
    both.master.settings["brokerClusterName"] = "D"


def a_slave_too(both: Pair, store: MessageStore) -> None:
    both.master.settings["brokerRole"] = "SLAVE"


def longer(both: Pair, store: MessageStore) -> None:
    send(both.master.store, store)
    put(store, "only here")


def another_end(both: Pair, store: MessageStore) -> None:
    send(both.master.store, store)
    put(store, "only here")
    put(both.master.store, "only there", "and this")


def expired(both: Pair, store: MessageStore) -> None:
    send(both.master.store, store, until=2_000)
    finish(both.master.store.drop_oldest_log_file())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (other_size, "mappedFileSizeCommitLog is 1073741824 at the master"),
        (other_name, "is broker b of cluster C"),
        (other_cluster, "is broker a of cluster D"),
        (a_slave_too, "is a slave itself"),
        (longer, "the master has lost its end"),
        (another_end, "the logs have gone apart"),
        (expired, "have expired there"),
    ],
)
async def test_what_must_not_be_followed_is_named(change: Change, says: str) -> None:
    both, store = Pair(filled()), opened(SimulatedDisk())
    change(both, store)
    end = store.commit_log.end
    async with both.slave(store) as slave:
        await both.clock.advance(30)
        assert says in slave.follower.state
        assert slave.follower.stopped is not None
        assert not both.master.streams
        assert store.commit_log.end == end


# --- recorded streams ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_split_of_javas_stream_gives_javas_log(tmp_path: Path, seed: int) -> None:
    """And at the end of each connection the slave has reported what it has."""
    master, _ = unpack_stores(tmp_path / "java")
    (tmp_path / "ours").mkdir()
    store = MessageStore(RealDisk(tmp_path / "ours"), JAVA_PAIR, ManualClock())
    rng, now, reports = Random(seed), 0.0, b""
    by_connection: dict[int, bytes] = {}
    for piece in classic_stream():
        if piece.from_master:
            by_connection[piece.connection] = by_connection.get(piece.connection, b"") + piece.data
    for data in by_connection.values():
        stream = SlaveStream(store.following, lambda: store.commit_log.end, 5.0, 20.0)
        reports = stream.begin(now)
        while data:
            cut = rng.choice((1, 11, 12, 13, 100, 1460, 20_000))
            stream.receive(data[:cut], now)
            data, now = data[cut:], now + 0.01
            reports += stream.report(now)
    assert log_of(store) == log_bytes(master)[:STREAM_BYTES]
    assert REPORT.unpack(reports[-8:]) == (STREAM_BYTES,)
    store.close()
