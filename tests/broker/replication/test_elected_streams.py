"""Both ends of the stream of an elected set, between two stores: joining, cutting, epochs, what is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest

from pyromq.broker.replication.following.elected_follower import MustCut, join
from pyromq.broker.replication.following.follower import FollowSettings
from pyromq.broker.replication.following.joining import CannotFollow
from pyromq.broker.replication.following.stream_ends import PortRefuses
from pyromq.errors import ConnectionLost
from pyromq.protocol.replication.auto_switch import Hello, encode_hello, encode_report
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.epochs import load_epochs
from pyromq.store.files.disk import read_whole
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.memory import MemoryNetwork
from tests.broker.replication.elected_pair import HA, QUICK, Leading, Replica, reopened
from tests.store.small import bodies, opened, put
from tests.store.test_following import assert_same, filled, log_of


class World:
    def __init__(self, chunk_bytes: int = 64 << 10) -> None:
        self.clock, self.network = ManualClock(), MemoryNetwork(chunk_bytes)
        self.tasks: list[asyncio.Task[None]] = []

    def lead(self, disk: SimulatedDisk | None = None, **how: object) -> Leading:
        return Leading(disk or SimulatedDisk(), self.clock, self.network, **how)  # type: ignore[arg-type]

    def replica(self, disk: SimulatedDisk | None = None, me: int = 2) -> Replica:
        return Replica(disk or SimulatedDisk(), self.clock, self.network, me)

    async def cut_off(self, replica: Replica) -> None:
        """End its stream: the master goes on alone."""
        assert replica.stream is not None
        replica.stream.close()
        await self.clock.settle()
        assert isinstance(replica.ended, ConnectionLost)

    async def following(self, replica: Replica, settings: FollowSettings = QUICK, rounds: int = 500) -> None:
        self.tasks.append(asyncio.create_task(replica.follow(settings)))
        await self.clock.settle(rounds)


@asynccontextmanager
async def world(chunk_bytes: int = 64 << 10) -> AsyncIterator[World]:
    made = World(chunk_bytes)
    try:
        yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)


def disk_of(store: MessageStore) -> SimulatedDisk:
    disk = store.following.disk
    assert isinstance(disk, SimulatedDisk)
    return disk


def epochs(*entries: tuple[int, int]) -> EpochList:
    return EpochList(MasterEpoch(*entry) for entry in entries)


@pytest.mark.parametrize("chunk_bytes", [1, 35, 1000, 64 << 10])
async def test_an_empty_replica_gets_the_log_its_epochs_and_what_is_confirmed(chunk_bytes: int) -> None:
    async with world(chunk_bytes) as here:
        before = filled(10 if chunk_bytes == 1 else 60)
        before.close()
        master, replica = here.lead(disk_of(before)), here.replica()
        await here.following(replica, rounds=40_000 if chunk_bytes < 100 else 3_000)
        assert replica.ended is None
        assert log_of(replica.store) == log_of(master.store)
        end = master.store.commit_log.end
        assert master.lead.confirmed == end == master.store.readable.value
        await here.clock.advance(1)  # a heartbeat says what is confirmed now, and under which epoch
        assert master.epochs.list == replica.epochs.list == load_epochs(replica.disk) == epochs((0, 0), (1, end))
        assert replica.store.readable.value == end
        assert_same(master.store, replica.store)
        assert replica.caught_up == 1


async def test_what_is_appended_is_confirmed_by_all_members_and_then_readable_at_both() -> None:
    async with world() as here:
        master, replica, third = here.lead(members=(1, 2, 3)), here.replica(), here.replica(me=3)
        await here.following(replica)
        put(master.store, "one", "two")
        await here.clock.settle()
        assert replica.store.commit_log.end == master.store.commit_log.end
        assert bodies(master.store) == bodies(replica.store) == []  # the third one has not got them
        await here.following(third)
        assert bodies(master.store) == [b"one", b"two"]
        await here.clock.advance(1)
        assert bodies(replica.store) == bodies(third.store) == [b"one", b"two"]
        assert master.streams.replicas == {2, 3}


async def test_a_diverged_tail_has_to_be_cut_first_and_then_the_logs_are_the_same() -> None:
    async with world() as here:
        old = here.lead(disk := SimulatedDisk())
        replica = here.replica()
        await here.following(replica)
        put(old.store, "both")
        await here.clock.advance(1)
        await here.cut_off(replica)
        put(old.store, "only there", "and this")
        await here.clock.settle()
        await old.close()
        with closing(reopened(disk)) as store:
            assert bodies(store) == [b"both"]  # nobody ever saw the others

        replica.store.close()
        new = here.lead(replica.disk, me=2, epoch=2)
        put(new.store, "instead")
        returned = here.replica(disk, me=1)
        await here.following(returned)
        assert isinstance(returned.ended, MustCut)
        assert (returned.ended.cut.epochs, returned.ended.cut.lost_confirmed) == (epochs((1, 0)), 0)
        returned.cut()
        await here.following(returned)
        await here.clock.advance(1)
        assert returned.ended is None
        assert bodies(returned.store) == bodies(new.store) == [b"both", b"instead"]
        assert_same(new.store, returned.store)
        assert load_epochs(disk) == new.epochs.list


async def test_equal_epoch_starts_are_found_and_only_the_file_changes() -> None:
    """Three elections without a write: the second master's entry goes when the third begins at the same place."""
    async with world() as here:
        first = here.lead(disk := SimulatedDisk())
        put(first.store, "one")
        replica = here.replica()
        await here.following(replica)
        await here.clock.advance(1)
        await here.cut_off(replica)
        end = first.store.commit_log.end
        await first.close()
        replica.store.close()

        second = here.lead(replica.disk, me=2, epoch=2)  # it dies before anybody hears of it
        await second.close()
        third = here.lead(disk, epoch=3)
        assert third.epochs.list == epochs((1, 0), (3, end))
        replica.open_again()
        assert replica.epochs.list == epochs((1, 0), (2, end))
        await here.following(replica)
        put(third.store, "two")
        await here.clock.advance(1)
        assert replica.ended is None
        assert load_epochs(replica.disk) == epochs((1, 0), (3, end))
        assert bodies(replica.store) == [b"one", b"two"]


async def test_an_unconfirmed_record_behind_an_equal_start_is_cut() -> None:
    """What Java's class takes for common: both began at the same place, one has written."""
    async with world() as here:
        first = here.lead(disk := SimulatedDisk())
        put(first.store, "one")
        replica = here.replica()
        await here.following(replica)
        await here.clock.advance(1)
        await here.cut_off(replica)
        end = first.store.commit_log.end
        await first.close()
        replica.store.close()
        second = here.lead(replica.disk, me=2, epoch=2)
        put(second.store, "of epoch 2")
        await second.close()
        third = here.lead(disk, epoch=3)
        put(third.store, "of epoch 3")
        replica.open_again()
        await here.following(replica)
        assert isinstance(replica.ended, MustCut)
        assert replica.ended.cut.position == end
        replica.cut()
        await here.following(replica)
        await here.clock.advance(1)
        assert bodies(replica.store) == [b"one", b"of epoch 3"]


async def test_a_record_that_the_stream_cut_is_asked_for_again() -> None:
    async with world(chunk_bytes=50) as here:
        master, replica = here.lead(), here.replica()
        master.settings = replace(master.settings, ha_transfer_batch_size=300)
        put(master.store, "a whole one", "x" * 2000)
        await here.following(replica, rounds=1)
        for _ in range(300):
            await here.clock.settle(1)
            if replica.store.following.position > replica.store.commit_log.end + 500:
                break  # a part of the second waits
        assert replica.store.commit_log.end > 0
        await here.cut_off(replica)
        assert replica.store.commit_log.end < master.store.commit_log.end
        await here.following(replica, rounds=2_000)
        await here.clock.advance(1)
        assert_same(master.store, replica.store)


async def test_logs_that_have_nothing_in_common_are_not_followed() -> None:
    async with world() as here:
        stranger = SimulatedDisk()
        other = opened(stranger)
        put(other, "of a lone broker")
        other.close()
        here.lead()
        replica = here.replica(stranger)
        await here.following(replica)
        assert isinstance(replica.ended, CannotFollow)
        assert "has nothing in common" in str(replica.ended)


async def test_reports_say_what_is_synced_where_that_is_wanted() -> None:
    async with world() as here:
        master, replica = here.lead(), here.replica()
        await here.following(replica, FollowSettings(heartbeat_s=0.3, silence_s=1.5, after_flush=True))
        put(master.store, "one")
        await here.clock.settle()
        assert master.lead.acting.report_of(2) == replica.store.flushed.value == master.store.commit_log.end


async def test_two_streams_of_one_replica_are_one() -> None:
    async with world() as here:
        master = here.lead()
        first, second = here.replica(), here.replica()
        await here.following(first)
        put(master.store, "one")
        await here.clock.settle()
        assert master.lead.acting.report_of(2) == master.store.commit_log.end
        await here.following(second)
        assert isinstance(first.ended, ConnectionLost)
        await here.clock.settle(500)
        assert (second.ended, len(master.port.senders)) == (None, 1)
        assert master.lead.ended == []
        assert second.store.commit_log.end == master.store.commit_log.end


async def test_a_silent_follower_and_a_silent_master_are_left() -> None:
    async with world() as here:
        master = here.lead()
        replica = here.replica()
        await here.following(replica)
        assert replica.stream is not None
        (sender,) = master.port.senders
        assert sender._stream is not None
        sender._stream.pause_reading()
        await here.clock.advance(2)
        assert isinstance(replica.ended, ConnectionLost)
        assert 2 in master.lead.ended
        assert master.streams.replicas == frozenset()


async def test_a_port_where_nobody_listens_is_told_apart() -> None:
    async with world() as here:
        with pytest.raises(PortRefuses):
            await join(here.network.connect, HA, 2, here.clock, QUICK)


async def test_a_deposed_master_takes_nobody() -> None:
    async with world() as here:
        master = here.lead()
        master.lead.is_over = True
        replica = here.replica()
        await here.following(replica)
        assert isinstance(replica.ended, ConnectionLost)
        assert master.streams.replicas == frozenset()


class Peer(asyncio.Protocol):
    """Says what it is told to."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        self.is_lost = False
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.said)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@pytest.mark.parametrize(
    "said",
    [
        encode_hello(Hello(2)) + encode_report(1 << 40),
        encode_hello(Hello(2)) + encode_report(0) + encode_report(1 << 40),
        encode_hello(Hello(2)) + encode_report(5_000_000),
        encode_hello(Hello(1)),
        encode_hello(Hello(0)),
        encode_hello(Hello(2, from_last_file=True)),
        encode_report(0),
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(100),
    ],
)
async def test_what_cannot_be_true_ends_the_stream_and_confirms_nothing(said: bytes) -> None:
    async with world() as here:
        master = here.lead()
        put(master.store, "one")
        peer = Peer(said)
        await here.network.connect(HA, peer)
        await here.clock.settle()
        assert peer.is_lost
        assert (master.lead.confirmed, master.streams.replicas) == (0, frozenset())


async def test_a_learner_is_streamed_to_and_never_counts() -> None:
    async with world() as here:
        master = here.lead()
        put(master.store, "one")
        peer = Peer(encode_hello(Hello(7, is_learner=True)) + encode_report(0))
        await here.network.connect(HA, peer)
        await here.clock.settle()
        assert b"one" in peer.received
        assert (master.streams.replicas, master.lead.heard_of) == (frozenset(), [])


async def test_a_half_handshake_is_given_up() -> None:
    async with world() as here:
        here.lead()
        peer = Peer(encode_hello(Hello(2))[:9])
        await here.network.connect(HA, peer)
        await here.clock.advance(2)
        assert peer.is_lost


async def test_a_master_whose_log_begins_later_is_followed_from_there() -> None:
    async with world() as here:
        before = filled()
        await before.drop_oldest_log_file()
        before.close()
        master = here.lead(disk_of(before))
        assert master.store.commit_log.start > 0
        replica = here.replica()
        await here.following(replica, rounds=3_000)
        await here.clock.advance(1)
        assert replica.ended is None
        assert_same(master.store, replica.store)
        assert load_epochs(replica.disk) == master.epochs.list
        assert read_whole(replica.disk, "epochFileCheckpoint") == read_whole(master.disk, "epochFileCheckpoint")


async def test_what_each_replica_of_one_machine_lacks_is_wanted() -> None:
    async with world() as here:
        master = here.lead(members=(1, 2, 3))
        replica, third = here.replica(), here.replica(me=3)
        await here.following(replica)
        put(master.store, "one")
        await here.clock.settle()
        had = master.store.commit_log.end
        await here.cut_off(replica)
        await here.following(third)
        put(master.store, "two")
        await here.clock.settle()
        assert third.store.commit_log.end == master.store.commit_log.end > had
        assert master.port.wanted_from() == had  # the one that has left, though another one is there from its host
