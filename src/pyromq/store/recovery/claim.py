"""Who may write a store: one process at a time, and only a store of a kind that we understand.

The broker and every tool that writes call `claim_store` before anything else; tools that only read call
`refuse_unknown_kinds`. Neither changes anything but the lock file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import PyroError
from ..files.disk import Disk, DiskLock
from ..queues.java_queues import find_light_queue

LOCK_FILE = "lock"

# A RocksDB database is a folder with a file called CURRENT.
_ROCKSDB_TABLES = ("topics", "subscriptionGroups", "consumerOffsets", "rdb")


class UnknownStoreKind(PyroError):
    """A store with parts that we do not read: opening it would lose them."""


def claim_store(disk: Disk) -> DiskLock:
    """Refuse what we cannot read, then take the `lock` file as Java does. Raises UnknownStoreKind, StoreLocked."""
    refuse_unknown_kinds(disk)
    return disk.lock(LOCK_FILE)


@contextmanager
def claimed(disk: Disk) -> Iterator[None]:
    """Have the store for the time of a block, as `claim_store` does."""
    lock = claim_store(disk)
    try:
        yield
    finally:
        lock.release()


def refuse_unknown_kinds(disk: Disk) -> None:
    for name, what, remedy in _unknown_parts(disk):
        raise UnknownStoreKind(f"the store in {disk.root} cannot be opened: {name} shows that {what}. {remedy}")


def _unknown_parts(disk: Disk) -> Iterator[tuple[str, str, str]]:
    if disk.exists("consumequeue/CURRENT"):
        what = "its consume queues are in RocksDB (storeType=defaultRocksDB)"
        yield "consumequeue", what, "Move that folder away: the queues are then rebuilt from the commit log"
    light = find_light_queue(disk)
    if light is not None:
        what = "it has queues that are filled from records of other topics (enableLmq=true, enableMultiDispatch=true)"
        remedy = "Their messages are in their own topics too: to go on without these queues, move the folders "
        yield light, what, remedy + "consumequeue/%LMQ%* away"
    for table in _ROCKSDB_TABLES:
        if disk.exists(f"config/{table}/CURRENT"):
            remedy = (
                "Export them with `mqadmin rocksDBConfigToJson`, put the files into config/ and move that folder away"
            )
            yield f"config/{table}", "its tables are in RocksDB (storeType=defaultRocksDB)", remedy
    for name in disk.list():
        if name.startswith("dledger-") and disk.is_folder(name):
            what = "its commit log is a DLedger log (enableDLegerCommitLog=true)"
            yield name, what, "Replicate its topics into a new store instead"


def refuse_elected(disk: Disk) -> None:
    """Refuse the store of an elected set to a broker outside of it. Tools may read and write it: they add no records.

    What such a broker put would be in no epoch, and the set would take it for the last master's."""
    if disk.exists("epochFileCheckpoint"):
        raise UnknownStoreKind(
            f"the store in {disk.root} cannot be opened: epochFileCheckpoint shows that it belongs to an elected set, "
            "or to a Java broker in controller mode (enableControllerMode=true), which may not be master here. Start "
            "it as a member of its set; to go on as a broker without one, move that file away"
        )
