"""Streams that Java's brokers recorded in controller mode, through both of our ends, byte by byte and cut anywhere."""

from __future__ import annotations

from random import Random

import pytest

from pyromq.broker.replication.following.elected_stream import ElectedStream, FollowedLog
from pyromq.broker.replication.leading.elected_streams import ElectedStreams
from pyromq.broker.replication.leading.ha_port import HaPort
from pyromq.broker.replication.settings import ReplicationSettings
from pyromq.protocol.replication.auto_switch import Guest, Host, ReplicaReport, Transfer, Welcome
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.epochs import EpochFile, load_epochs
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.memory import pair
from tests.broker.replication.elected_pair import ActingLead
from tests.broker.replication.test_ha_port import Slave
from tests.protocol.replication.recorded_streams import RecordedConnection, connections
from tests.store.test_following import JAVA_PAIR, log_of

FAILOVER, SHRINK = connections("controller-failover"), connections("controller-shrink")
FIRST = EpochList([MasterEpoch(1, 0)])


def recorded(connection: RecordedConnection) -> tuple[Welcome, list[Transfer]]:
    host = Host()
    heard = [one for piece in connection.from_master for one in host.feed(piece)]
    (welcome,) = [one for one in heard if isinstance(one, Welcome)]
    return welcome, [one for one in heard if isinstance(one, Transfer)]


def log_in(transfers: list[Transfer]) -> bytes:
    return b"".join(one.data for one in transfers)


class Follower:
    """Our end, on a store that goes on from connection to connection."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.store = MessageStore(self.disk, JAVA_PAIR, ManualClock(), is_elected=True)
        self.epochs = EpochFile(self.disk, self.store.commit_log)

    def hear(self, pieces: list[bytes]) -> list[int]:
        """Take what the master sent, in these pieces; the positions that were reported."""
        stream = ElectedStream(2, 5.0, 20.0)
        said, now, follows = stream.begin(0.0), 0.0, False
        for piece in pieces:
            now += 0.001
            stream.receive(piece, now)
            if stream.welcome is not None and not follows:
                followed = FollowedLog(self.store, self.epochs, lambda: self.store.commit_log.end)
                said += stream.follow(followed, now)
                follows = True
            said += stream.report(now)
        return [one.position for one in reports_in(said)]


def pieces_of(data: bytes, rng: Random | None, head: int) -> list[bytes]:
    """The welcome whole, since nothing comes behind it before the first report; the rest byte by byte, or by chance."""
    pieces, at = [data[at : at + 1] for at in range(head)], head
    while at < len(data):
        size = 1 if rng is None else rng.choice((1, 35, 36, 37, 500, 2000, 20_000))
        pieces.append(data[at : at + size])
        at += size
    return pieces


def welcome_bytes(welcome: Welcome) -> int:
    return 20 + 12 * len(welcome.epochs.entries)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_follower_of_javas_stream_has_javas_bytes_epochs_and_confirmed_position(seed: int | None) -> None:
    connection = FAILOVER[1]
    welcome, transfers = recorded(connection)
    follower = Follower()
    data = b"".join(connection.from_master)
    rng = None if seed is None else Random(seed)
    reports = follower.hear(pieces_of(data, rng, welcome_bytes(welcome)))
    whole = follower.store.commit_log.end
    assert whole == 48_997  # where the record begins that the stream cut; Java reports 49180 and cuts it later
    assert log_of(follower.store) == log_in(transfers)[:whole]
    assert reports == sorted(set(reports))
    assert (reports[0], reports[-1]) == (0, whole)
    assert load_epochs(follower.disk) == FIRST
    assert follower.store.readable.value == whole  # it was told more than it has


@pytest.mark.parametrize("seed", [None, 4])
def test_the_next_master_is_followed_from_the_common_end_and_its_epoch_is_kept(seed: int | None) -> None:
    follower = Follower()
    welcome, transfers = recorded(FAILOVER[1])
    before = b"".join(FAILOVER[1].from_master)
    follower.hear(pieces_of(before, Random(9), welcome_bytes(welcome)))
    welcome, later = recorded(FAILOVER[2])
    rng = None if seed is None else Random(seed)
    reports = follower.hear(pieces_of(b"".join(FAILOVER[2].from_master), rng, welcome_bytes(welcome)))
    assert (reports[0], reports[-1]) == (48_997, 105_370)
    assert log_of(follower.store) == log_in(transfers)[:48_997] + log_in(later)
    assert load_epochs(follower.disk) == welcome.epochs == EpochList([MasterEpoch(1, 0), MasterEpoch(2, 48_997)])
    assert follower.store.readable.value == 105_370


class RecordedLog:
    """The log that a recorded master had, as far as it sent it."""

    def __init__(self, transfers: list[Transfer], end: int) -> None:
        self.base = transfers[0].position
        self.bytes, self.start, self.end = log_in(transfers), self.base, end
        self.last_file = self.base

    def read_now(self, position: int, most: int) -> bytes | None:
        until = min(position + most, self.end, position - position % 65_536 + 65_536)
        return self.bytes[position - self.base : until - self.base]

    async def read_later(self, position: int, most: int) -> bytes:
        raise AssertionError("all of it is in memory")


class Listener(Slave):
    """Java's follower: what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.heard: list[Welcome | Transfer] = []

    def data_received(self, data: bytes) -> None:
        self.heard += self.host.feed(data)


@pytest.mark.parametrize("cut", [1, 5, 1000])
@pytest.mark.parametrize(("run", "number"), [("failover", 1), ("failover", 2), ("shrink", 1), ("shrink", 12)])
async def test_what_javas_followers_say_is_answered_as_java_does(run: str, number: int, cut: int) -> None:
    """The same welcome, the same bytes at the same places; all their reports are taken, and confirm."""
    connection = (FAILOVER if run == "failover" else SHRINK)[number]
    welcome, transfers = recorded(connection)
    source = RecordedLog(transfers, welcome.end)
    clock = ManualClock()
    lead = ActingLead(9, welcome.epoch, (9,), 0, welcome.end, minimum=1)
    streams = ElectedStreams(lead, source, welcome.epochs, 9)

    async def members() -> list[str]:
        return []

    port = HaPort(source, clock, ReplicationSettings, members, lambda: None, [], streams.wire)
    follower = Listener()
    follower.stream, theirs = pair("127.0.0.1:40000", "127.0.0.1:10912")
    follower.stream.set_protocol(follower)
    sender = port.welcome("127.0.0.1:40000")
    assert sender is not None
    theirs.set_protocol(sender)
    sender.connection_made(theirs)

    said = b"".join(connection.from_follower)
    source.end = source.base + len(source.bytes)
    lead.note_own(source.end, source.end)
    for at in range(0, len(said), cut):
        follower.stream.write(said[at : at + cut])
        await clock.settle(3)
    await clock.settle()
    assert not follower.is_lost
    first = follower.heard[0]
    assert isinstance(first, Welcome)
    assert (first.epoch, first.epochs) == (welcome.epoch, welcome.epochs)
    sent = [one for one in follower.heard if isinstance(one, Transfer)]
    assert log_in(sent) == source.bytes
    assert {one.epoch for one in sent} == {one.epoch for one in transfers}
    assert sender.acked == max(0, *(report.position for report in reports_in(said)))
    await port.close()


def reports_in(said: bytes) -> list[ReplicaReport]:
    return [one for one in Guest().feed(said) if isinstance(one, ReplicaReport)]
