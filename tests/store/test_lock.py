"""Which stores may be opened, and by how many."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.epochs import save_epochs
from pyromq.store.files.disk import StoreLocked
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.recovery.claim import UnknownStoreKind, claim_store, refuse_elected
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import message, opened, put


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("consumequeue/CURRENT", "RocksDB"),
        ("config/topics/CURRENT", "RocksDB"),
        ("config/subscriptionGroups/CURRENT", "RocksDB"),
        ("config/consumerOffsets/CURRENT", "RocksDB"),
        ("config/rdb/CURRENT", "RocksDB"),
        ("dledger-n0/data/00000000000000000000", "DLedger"),
    ],
)
def test_kinds_that_we_do_not_read_are_refused_by_name(name: str, word: str) -> None:
    disk = SimulatedDisk()
    if "/" in name:
        disk.make_folder(name.rpartition("/")[0])
    disk.open(name, create=True)
    with pytest.raises(UnknownStoreKind, match=word) as refusal:
        claim_store(disk)
    assert "/".join(name.split("/")[: 2 if name.startswith("config") else 1]) in str(refusal.value)
    assert not disk.exists("lock")


def test_a_store_of_an_elected_set_is_refused_to_brokers_outside_of_it_and_open_to_tools() -> None:
    disk = SimulatedDisk()
    save_epochs(disk, EpochList([MasterEpoch(1, 0)]))
    with pytest.raises(UnknownStoreKind, match=r"elected set, .*controller mode.*move that file away"):
        refuse_elected(disk)
    claim_store(disk).release()


def test_queues_that_are_filled_from_other_topics_are_refused_and_topics_of_such_a_name_are_not() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "one", "two", topic="%LMQ%room7")
    store.close()
    opened(disk).close()  # a topic with its own records
    store = opened(disk)
    (placed,) = store.put([message("three", topic="chat")])
    store.queues.get_or_make("%LMQ%room7", 1).accept([placed._replace(topic="%LMQ%room7", queue_id=1)])
    store.close()
    before = disk.list("consumequeue/%LMQ%room7")
    with pytest.raises(UnknownStoreKind, match=r"consumequeue/%LMQ%room7 .*enableLmq=true"):
        claim_store(disk)
    assert disk.list("consumequeue/%LMQ%room7") == before


def test_the_golden_store_is_taken_although_it_has_a_rocksdbstore_folder(tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "golden" / "store-clean.tar.gz") as archive:
        members = [member for member in archive if "rocksdbstore" in member.name or member.name.endswith("/lock")]
        archive.extractall(tmp_path, members, filter="data")
    disk = RealDisk(tmp_path / "store")
    assert disk.exists("rocksdbstore/CURRENT")
    claim_store(disk).release()
    assert (tmp_path / "store" / "lock").read_bytes() == b"lock"


def test_a_second_claim_is_refused(tmp_path: Path) -> None:
    lock = claim_store(RealDisk(tmp_path))
    with pytest.raises(StoreLocked):
        claim_store(RealDisk(tmp_path))
    lock.release()
    claim_store(RealDisk(tmp_path)).release()


def test_a_lock_as_java_takes_it_keeps_us_out(tmp_path: Path) -> None:
    """FileChannel.tryLock(0, 1, false) is a POSIX write lock of one byte at 0."""
    program = (
        "import fcntl, os, sys\n"
        "file = open(sys.argv[1], 'w+'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, 0)\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as java:
        assert java.stdout is not None
        assert java.stdout.readline() == "held\n"
        assert RealDisk(tmp_path).is_locked("lock")
        with pytest.raises(StoreLocked, match="another process"):
            claim_store(RealDisk(tmp_path))
        java.communicate()
    assert not RealDisk(tmp_path).is_locked("lock")
    claim_store(RealDisk(tmp_path)).release()


def test_our_lock_covers_byte_0_alone(tmp_path: Path) -> None:
    lock = claim_store(RealDisk(tmp_path))
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 1, 0)\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, 0)\n"
        "except OSError: print('byte 0 is held')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "lock")], capture_output=True, text=True)
    assert done.stdout == "byte 0 is held\n"
    assert done.returncode == 0
    lock.release()


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pyromq.store.files.real_disk import RealDisk\n"
        "from pyromq.store.recovery.claim import claim_store\n"
        "lock = claim_store(RealDisk(sys.argv[1])); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)]).returncode == -9
    claim_store(RealDisk(tmp_path)).release()


def test_nobody_else_in_this_process_drops_the_lock(tmp_path: Path) -> None:
    """The trap of POSIX locks: a refused second claim must not have opened and closed the file."""
    lock = claim_store(RealDisk(tmp_path))
    assert not RealDisk(tmp_path).is_locked("lock")
    with pytest.raises(StoreLocked):
        claim_store(RealDisk(tmp_path))
    child = os.fork()
    if child == 0:  # the child has no lock of its own: it can ask whether ours still stands
        descriptor = os.open(tmp_path / "lock", os.O_RDWR)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, 0)
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    lock.release()
