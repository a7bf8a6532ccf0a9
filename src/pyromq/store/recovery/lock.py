"""Who may write a store: one process at a time, and only a store of a kind that we understand.

The broker and every tool that writes call `claim_store` before anything else; tools that only read call
`refuse_unknown_kinds`. Neither changes anything but the lock file.
"""

from __future__ import annotations

from ...errors import PyroError
from ..files.disk import Disk, DiskLock
from ..queues.light_queues import find_light_queue

LOCK_FILE = "lock"

# A RocksDB database is a folder with a file of this name.
_ROCKSDB_MARK = "CURRENT"
_ROCKSDB_TABLES = ("topics", "subscriptionGroups", "consumerOffsets", "rdb")


class UnknownStoreKind(PyroError):
    """A store with parts that we do not read: opening it would lose them."""


def claim_store(disk: Disk) -> DiskLock:
    """Refuse what we cannot read, then take the `lock` file as Java does. Raises UnknownStoreKind, StoreLocked."""
    refuse_unknown_kinds(disk)
    return disk.lock(LOCK_FILE)


def refuse_unknown_kinds(disk: Disk) -> None:
    if disk.exists(f"consumequeue/{_ROCKSDB_MARK}"):
        _refuse(
            disk,
            "consumequeue",
            "its consume queues are in RocksDB (storeType=defaultRocksDB)",
            "Move that folder away: the queues are then rebuilt from the commit log",
        )
    light = find_light_queue(disk)
    if light is not None:
        _refuse(
            disk,
            light,
            "it has queues that are filled from records of other topics (enableLmq=true, enableMultiDispatch=true)",
            "Their messages are in their own topics too: to go on without these queues, move the folders "
            "consumequeue/%LMQ%* away",
        )
    for table in _ROCKSDB_TABLES:
        if disk.exists(f"config/{table}/{_ROCKSDB_MARK}"):
            _refuse(
                disk,
                f"config/{table}",
                "its tables are in RocksDB (storeType=defaultRocksDB)",
                "Export them with `mqadmin rocksDBConfigToJson`, put the files into config/ and move that folder away",
            )
    for name in disk.list():
        if name.startswith("dledger-") and disk.is_folder(name):
            _refuse(
                disk,
                name,
                "its commit log is a DLedger log (enableDLegerCommitLog=true)",
                "Replicate its topics into a new store instead",
            )
    if disk.exists("epochFileCheckpoint"):
        _refuse(
            disk,
            "epochFileCheckpoint",
            "it belongs to a broker in controller mode (enableControllerMode=true), which may not be master here",
            "Leave controller mode with the Java broker first; then remove that file",
        )


def _refuse(disk: Disk, name: str, what: str, remedy: str) -> None:
    raise UnknownStoreKind(f"the store in {disk.root} cannot be opened: {name} shows that {what}. {remedy}")
