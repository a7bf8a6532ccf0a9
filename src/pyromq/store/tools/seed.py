"""`store seed`: the store of a new slave, from a backup or from a running master.

Both ways end with a store that its slave goes on from. What belongs to the broker that was copied, and to no other, is
left out: its certificate and key, and commits that only it had taken. `broker/replication/seeding.py` has the other
way; what a broken-off try of that leaves is marked, so that the same command goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ...ambient import Clock
from ...errors import PyroError
from ..config import StoreConfig
from ..errors import StoreDamaged
from ..files.disk import Disk, folder_of, make_folder_durably, read_if_there, remove_durably, replace_durably
from .backup import Backup, backup_store
from .verify import verify_store

MARK = "pyromq/seeding"  # names the master while its log is being taken
LEFT_OUT = ("pyromq/tls", "pyromq/ownCommits.json", MARK)
_DERIVED = 0.2  # bytes of queues and index for each byte of log, at most, with bodies of 100 bytes

Progress = Callable[[int, int], None]


class NotSeeded(PyroError):
    """A store cannot be seeded as things are. Says why, and what to do."""


def check_space(free_bytes: int, log_bytes: int, file_bytes: int, where: str) -> None:
    """Raise NotSeeded unless log, queues and index have room. Log files are allocated whole, and one ahead."""
    files = -(-log_bytes // file_bytes) + 1
    needed = files * file_bytes + int(log_bytes * _DERIVED)
    if free_bytes < needed:
        raise NotSeeded(
            f"{where} has {free_bytes} bytes free, and about {needed} are needed: {files} log files of {file_bytes} "
            "bytes, queues and index. Make room, or name a folder on a larger disk. Nothing was written"
        )


def begin_from_master(target: Disk, cluster: str, broker_name: str) -> None:
    """Mark the folder as being seeded. NotSeeded unless it is empty, or was marked for the same master before."""
    wanted = {"cluster": cluster, "broker": broker_name}
    mark = read_if_there(target, MARK)
    if mark is None and target.list():
        raise NotSeeded(f"{target.root} is not empty: name a new folder, or move away what is there")
    if mark is not None and json.loads(mark) != wanted:
        raise NotSeeded(
            f"{target.root} was begun as a copy of another broker ({mark.decode()}): name a new folder, or remove it"
        )
    make_folder_durably(target, folder_of(MARK))
    replace_durably(target, MARK, json.dumps(wanted).encode())


def end_from_master(target: Disk) -> None:
    """Take the mark away: the log is there."""
    remove_durably(target, MARK)


def copy_for_slave(
    source: Disk, target: Disk, config: StoreConfig, clock: Clock, process_id: int, progress: Progress
) -> Backup:
    """Copy a backup, or the store of a broker that may be running. Blocking. TargetNotEmpty."""
    return backup_store(source, target, config, clock, process_id, progress, LEFT_OUT)


def check_copy(source: Disk, target: Disk, config: StoreConfig, progress: Progress) -> None:
    """Check every record of a copy. Blocking. StoreDamaged: the source has damage, which no slave must begin with."""
    report = verify_store(target, config, progress)
    if report.exit_code > 1:
        worst = next((str(one.what) for one in report.findings), "see pyromq store verify")
        raise StoreDamaged(
            f"what was copied from {source.root} is damaged ({worst}): pyromq store verify {source.root} shows all. "
            "Seed from the master instead (--master), or from another backup"
        )
