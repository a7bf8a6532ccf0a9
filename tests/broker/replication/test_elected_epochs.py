"""A follower saves an epoch before it takes bytes of it, whenever the power goes."""

from __future__ import annotations

import pytest

from pyromq.broker.replication.following.elected_stream import ElectedStream, FollowedLog
from pyromq.errors import ConnectionLost, ProtocolError
from pyromq.protocol.replication.auto_switch import Transfer, Welcome, encode_transfer_head, encode_welcome
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.epochs import EpochFile, load_epochs
from pyromq.store.message_store import MessageStore
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.broker.replication.elected_pair import reopened
from tests.crash.lives import finish
from tests.store.small import bodies, opened, put
from tests.store.test_following import log_of


def masters_log() -> tuple[MessageStore, MasterEpoch, MasterEpoch]:
    """A log of two epochs with two records each."""
    master = opened(SimulatedDisk())
    put(master, "one", "two")
    second = MasterEpoch(2, master.commit_log.end)
    put(master, "three", "four")
    return master, MasterEpoch(1, 0), second


def transfer(master: MessageStore, epoch: MasterEpoch, start: int, end: int) -> Transfer:
    return Transfer(start, epoch, end, master.commit_log.read(start, end - start))


def followed(store: MessageStore, disk: SimulatedDisk) -> FollowedLog:
    return FollowedLog(store, EpochFile(disk, store.commit_log), lambda: store.commit_log.end)


def take_all(log: FollowedLog, master: MessageStore, first: MasterEpoch, second: MasterEpoch) -> None:
    """What a master's stream brings from this log's end on."""
    log.restart()
    end = master.commit_log.end
    if log.end < second.start:
        log.take(transfer(master, first, log.end, second.start))
    if log.end < end:
        log.take(transfer(master, second, log.end, end))
    log.take(Transfer(end, second, end))  # a heartbeat


def test_a_power_cut_at_any_operation_leaves_no_byte_without_its_epoch() -> None:
    master, first, second = masters_log()
    whole = EpochList((first, second))
    stages = set()
    for moment in range(1, 200):
        for seed in range(3):
            disk = SimulatedDisk()
            store = reopened(disk)
            log = followed(store, disk)
            log.take(transfer(master, first, 0, second.start))
            finish(store.flush_all())
            disk.cut_power_after(moment)
            try:
                take_all(log, master, first, second)
                finish(store.flush_all())
            except PowerCut:
                is_over = False
            else:
                is_over = True
            after = disk.crash(seed)
            store = reopened(after)
            assert store.commit_log.end >= second.start
            assert store.commit_log.end == second.start or load_epochs(after) == whole
            stages.add((store.commit_log.end > second.start, load_epochs(after) == whole))
            take_all(followed(store, after), master, first, second)
            assert (log_of(store), load_epochs(after)) == (log_of(master), whole)
            assert bodies(store) == bodies(master)
        if is_over:
            assert stages == {(False, False), (False, True), (True, True)}
            return
    pytest.fail("taking never ended")


def test_an_epoch_that_java_names_too_early_is_borne() -> None:
    """The chunk that ends an epoch has the number of the next one."""
    master, first, second = masters_log()
    disk = SimulatedDisk()
    store = reopened(disk)
    log = followed(store, disk)
    log.take(transfer(master, first, 0, 100))
    log.take(transfer(master, second, 100, second.start))
    assert load_epochs(disk) == EpochList((first, second))
    store.close()
    store = reopened(disk)
    take_all(followed(store, disk), master, first, second)
    assert log_of(store) == log_of(master)


def test_an_epoch_whose_bytes_never_came_is_forgotten() -> None:
    master, first, second = masters_log()
    disk = SimulatedDisk()
    store = reopened(disk)
    log = followed(store, disk)
    log.take(transfer(master, first, 0, 100))
    log.take(transfer(master, second, 100, second.start - 1))  # a record is not whole
    assert store.commit_log.end < second.start
    store.close()
    assert EpochFile(disk, reopened(disk).commit_log).list == EpochList((first,))


def test_another_start_of_the_same_epoch_is_another_log() -> None:
    master, first, _ = masters_log()
    disk = SimulatedDisk()
    log = followed(reopened(disk), disk)
    log.take(transfer(master, first, 0, 100))
    with pytest.raises(ProtocolError, match="epoch 1 starts at 50, here it starts at 0"):
        log.take(Transfer(100, MasterEpoch(1, 50), 0))


def test_a_newer_epoch_than_the_one_that_was_joined_ends_the_stream() -> None:
    disk = SimulatedDisk()
    log = followed(reopened(disk), disk)
    stream = ElectedStream(2, 5.0, 20.0)
    stream.begin(0.0)
    stream.receive(encode_welcome(Welcome(0, 1, EpochList([MasterEpoch(1, 0)]))), 0.0)
    with pytest.raises(ProtocolError, match="before it was told where to begin"):
        stream.receive(encode_transfer_head(0, 0, MasterEpoch(1, 0), 0), 0.0)
    stream.follow(log, 0.0)
    with pytest.raises(ConnectionLost, match="has begun epoch 2"):
        stream.receive(encode_transfer_head(0, 0, MasterEpoch(2, 0), 0), 0.0)
    assert load_epochs(disk) == EpochList()
