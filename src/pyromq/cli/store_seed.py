"""`pyromq store seed`: the store of a new slave, from a backup or from a running master."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import click

from ..errors import ConfigError
from ..store.layout import COMMIT_LOG
from .terminal.progress import until_stopped
from .terminal.shell import Shell, talks
from .terminal.tree import command

_HERE = "The same command goes on where this one ended, and so does a slave that is started on it"


@command(
    "pyromq store seed /data/store --backup /backup/today",
    "pyromq store seed /data/store --master broker-a -n 10.0.0.1:9876",
    "pyromq store seed /data/store --master 10.0.0.5:10911 --ha 10.0.0.5:10912",
)
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--backup", type=click.Path(path_type=Path, exists=True), help="A backup, or the store of a broker.")
@click.option("--master", help="A running master: its name, or HOST:PORT of its main port.")
@click.option("--ha", metavar="HOST:PORT", help="With --master: its HA port, where it is not the one it names itself.")
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="With --backup: the slave's configuration, for file sizes that cannot be read off the files.",
)
@talks
async def seed(
    shell: Shell, target: Path, backup: Path | None, master: str | None, ha: str | None, config_file: Path | None
) -> None:
    """Make TARGET, which must be empty, the store of a new slave: start that with storePathRootDir=TARGET.

    From a backup it has what was there when that was made; from a master all that it has now, each record checked, and
    what was broken off goes on with the same command. The slave gets the rest, and all tables, when it is started.
    """
    if (backup is None) == (master is None):
        raise click.UsageError("say where from: --backup FOLDER or --master NAME, one of them")
    if backup is not None and ha is not None:
        raise click.UsageError("--ha goes with --master")
    if backup is not None:
        found = _from_backup(shell, target, backup, config_file)
    else:
        found = await _from_master(shell, target, str(master), ha)
    if shell.as_json:
        shell.report(found)
    shell.say(
        f"{found['bytes']} bytes of log, from {found['logStart']} to {found['logEnd']}, are in {found['target']}, each "
        f"record checked. Start the slave with storePathRootDir={found['target']}: it goes on from there"
    )


def _from_backup(shell: Shell, target: Path, backup: Path, config_file: Path | None) -> dict[str, Any]:
    from ..ambient import SystemClock
    from ..store.files.real_disk import RealDisk
    from ..store.tools.seed import check_copy, check_space, copy_for_slave
    from .store_opening import opened, removed_unless_done

    disk, config = opened(backup, config_file)
    if target.resolve().is_relative_to(backup.resolve()):
        raise ConfigError(f"{target} lies inside {backup}: name a folder outside of it")
    size = sum(disk.size(f"{COMMIT_LOG}/{name}") for name in disk.list(COMMIT_LOG))
    copy = RealDisk(target, create=True)
    check_space(shutil.disk_usage(target).free, size, config.commit_log_file_bytes, str(target))
    then = "Half a copy is no store and was removed, the same command begins anew"
    with removed_unless_done(target, is_new=False):
        with until_stopped("copying", then, is_quiet=shell.as_json) as report:
            done = copy_for_slave(disk, copy, config, SystemClock(), os.getpid(), report)
        with until_stopped("checking", then, is_quiet=shell.as_json) as report:
            check_copy(disk, copy, config, report)
    return _result(target, done.log_start, done.log_end)


async def _from_master(shell: Shell, target: Path, master: str, ha: str | None) -> dict[str, Any]:
    from ..broker.replication.seeding import Seeding, find_source
    from ..broker.replication.stream_tls import connect_by_tls
    from ..store.files.real_disk import RealDisk
    from ..store.tools.seed import begin_from_master, check_space, end_from_master
    from ..transport.client import Connect, connect_socket
    from ..transport.tls import ClientTls, Verify

    session = shell.session
    address = master if ":" in master else (await shell.masters(master))[0].address
    source = await find_source(session.transport, address, ha)
    disk = RealDisk(target, create=True)
    begin_from_master(disk, source.log.cluster, source.log.broker_name)
    here = sum(disk.size(f"{COMMIT_LOG}/{name}") for name in disk.list(COMMIT_LOG))
    free = shutil.disk_usage(target).free
    check_space(free + here, source.bytes, source.log.file_bytes, str(target))
    connect: Connect = connect_socket
    if source.settings.get("haTls", "off") != "off":
        connect = connect_by_tls(connect, session.clock, session.config.tls or ClientTls(verify=Verify.NONE))
    seeding = Seeding(disk, source.store_config(), session.transport, connect, session.clock, session.rng)
    with until_stopped("taking the log", _HERE, is_quiet=shell.as_json) as report:
        start, end = await seeding.take(source, report)
    end_from_master(disk)
    return _result(target, start, end) | {"master": address}


def _result(target: Path, start: int, end: int) -> dict[str, Any]:
    return {"target": str(target.resolve()), "logStart": start, "logEnd": end, "bytes": end - start}
