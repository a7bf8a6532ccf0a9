"""New slaves over real sockets: seeded from a backup or a master, and with the master's file size."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from pyromq.ambient import SystemClock
from pyromq.broker.replication.seeding import Seeding, find_source
from pyromq.broker.replication.settings import BrokerRole
from pyromq.cli.main import cli
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.tools.seed import NotSeeded, begin_from_master, check_space
from pyromq.transport.client import connect_socket
from pyromq.transport.dispatch import Reply
from tests.broker.replication.fake_broker import a_broker_that
from tests.broker.running import Running, running_broker, turns_until

SLAVE: dict[str, Any] = {"broker_role": BrokerRole.SLAVE, "broker_id": 1, "slave_read_enable": True}


async def fill(master: Running, count: int = 300) -> int:
    """Send so many messages, over several files. Return where the log ends."""
    for number in range(count):
        await master.send("T", body=b"%d" % number + b"x" * 300)
    return master.broker.store.commit_log.end


def ha_of(master: Running) -> str:
    return master.broker.naming.identity.ha_address


@asynccontextmanager
async def name_server_of(master: Running) -> AsyncIterator[str]:
    """A name server that knows this master alone."""
    place = {"masterAddr": master.address, "haServerAddr": ha_of(master)}
    group = {"brokerAddrs": {0: master.address}, "brokerName": "broker-a", "cluster": "C"}
    known = Reply(body=msgspec.json.encode({"brokerMemberGroup": group}))
    async with a_broker_that(GET_BROKER_MEMBER_GROUP=known, REGISTER_BROKER=Reply(fields=place)) as address:
        yield address


async def follows(master: Running, folder: Path, **settings: Any) -> bytes:
    """Start a slave of that master; return its log once it has all."""
    async with (
        name_server_of(master) as name_server,
        running_broker(folder, **(SLAVE | {"namesrv_addr": (name_server,)} | settings)) as slave,
    ):
        log, end = slave.broker.store.commit_log, master.broker.store.commit_log.end
        assert slave.broker.slave is not None
        await slave.broker.slave.tables.has_all.wait()
        await turns_until(lambda: log.end >= end)
        mine, theirs = [await one.call(Code.GET_MAX_OFFSET, topic="T", queueId=0) for one in (slave, master)]
        assert mine.fields == theirs.fields
        return bytes(log.read(log.start, end - log.start))


def log_of(master: Running) -> bytes:
    log = master.broker.store.commit_log
    return bytes(log.read(log.start, log.end - log.start))


async def seed(*words: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, cli, ["store", "seed", *map(str, words)])


# --- from a master ----------------------------------------------------------------------------------------------------


async def test_a_slave_goes_on_from_what_was_taken_of_a_master(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "master") as master:
        end = await fill(master)
        found = await seed(tmp_path / "slave", "--master", master.address, "--json")
        assert found.exit_code == 0, found.output
        report = json.loads(found.stdout)
        assert (report["logStart"], report["logEnd"], report["bytes"]) == (0, end, end)
        assert not (tmp_path / "slave" / "pyromq" / "seeding").exists()
        await fill(master, 20)  # what comes behind the seeding is the slave's to fetch
        assert await follows(master, tmp_path / "slave") == log_of(master)


async def test_a_master_with_other_file_sizes_is_taken_as_it_is(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"commit_log_file_bytes": 32768, "max_message_bytes": 20000}
    async with running_broker(tmp_path / "master", **sizes) as master:
        await fill(master)
        found = await seed(tmp_path / "slave", "--master", master.address)
        assert found.exit_code == 0, found.output
        assert f"storePathRootDir={tmp_path / 'slave'}" in found.stdout.replace("\n  ", " ")
        assert await follows(master, tmp_path / "slave", max_message_bytes=20000) == log_of(master)


async def test_what_was_broken_off_goes_on(tmp_path: Path) -> None:
    class BrokenOff(Exception):
        pass

    def break_off(done: int, whole: int) -> None:
        raise BrokenOff

    async with running_broker(tmp_path / "master") as master:
        await fill(master)
        disk = RealDisk(tmp_path / "slave", create=True)
        source = await find_source(master.client, master.address, None)
        begin_from_master(disk, source.log.cluster, source.log.broker_name)
        seeding = Seeding(disk, source.store_config(), master.client, connect_socket, SystemClock(), random.Random(1))
        with pytest.raises(ExceptionGroup) as broken:
            await seeding.take(source, break_off)
        assert broken.group_contains(BrokenOff)
        found = await seed(tmp_path / "slave", "--master", master.address)
        assert found.exit_code == 0, found.output
        assert await follows(master, tmp_path / "slave") == log_of(master)


async def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slave").mkdir()
    (tmp_path / "slave" / "notes").write_text("mine")
    async with running_broker(tmp_path / "master") as master:
        found = await seed(tmp_path / "slave", "--master", master.address)
        assert found.exit_code != 0
        assert "is not empty" in found.output
        assert [one.name for one in (tmp_path / "slave").iterdir()] == ["notes"]
        RealDisk(tmp_path / "other", create=True)
        begin_from_master(RealDisk(tmp_path / "other"), "C", "another")
        found = await seed(tmp_path / "other", "--master", master.address)
        assert "begun as a copy of another broker" in found.output.replace("\n", " ")


async def test_a_slave_is_no_source(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "slave", **SLAVE) as slave:
        found = await seed(tmp_path / "new", "--master", slave.address)
        assert found.exit_code != 0
        assert "is a slave itself" in found.output


# --- from a backup ----------------------------------------------------------------------------------------------------


async def test_a_slave_goes_on_from_a_backup(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "master") as master:
        end = await fill(master)
        (tmp_path / "master" / "pyromq" / "tls").mkdir(exist_ok=True)
        (tmp_path / "master" / "pyromq" / "tls" / "self-signed.pem").write_text("the master's own key")
        (tmp_path / "slave.conf").write_text("mapperFileSizeBatchConsumeQueue=46000\n")  # no file shows it
        settings = ["-c", str(tmp_path / "slave.conf")]
        made = await asyncio.to_thread(
            CliRunner().invoke, cli, ["store", "backup", str(tmp_path / "master"), str(tmp_path / "backup"), *settings]
        )
        assert made.exit_code == 0, made.output
        await fill(master, 50)
        found = await seed(tmp_path / "slave", "--backup", tmp_path / "backup", "--json", *settings)
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout)["logEnd"] == end
        assert not (tmp_path / "slave" / "pyromq" / "tls").exists()
        assert await follows(master, tmp_path / "slave") == log_of(master)


async def test_a_damaged_backup_is_no_source(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "master") as master:
        await fill(master)
    (first, *_) = sorted((tmp_path / "master" / "commitlog").iterdir())
    with first.open("r+b") as file:
        file.seek(2000)
        file.write(b"\xff" * 50)
    found = await seed(tmp_path / "slave", "--backup", tmp_path / "master")
    assert found.exit_code != 0
    assert "is damaged" in found.output
    assert not any((tmp_path / "slave").iterdir())


def test_where_from_is_said_once(tmp_path: Path) -> None:
    for words in ([], ["--backup", str(tmp_path), "--master", "a:1"], ["--backup", str(tmp_path), "--ha", "a:1"]):
        found = CliRunner().invoke(cli, ["store", "seed", str(tmp_path / "new"), *words])
        assert found.exit_code == 64
        assert not (tmp_path / "new").exists()


def test_room_for_log_queues_and_index_is_wanted() -> None:
    check_space(3000, 1000, 1000, "/data")
    with pytest.raises(NotSeeded, match=r"/data has 2199 bytes free, and about 2200 are needed: 2 log files of 1000"):
        check_space(2199, 1000, 1000, "/data")


# --- the size of log files --------------------------------------------------------------------------------------------


async def test_an_empty_slave_takes_the_masters_file_size_and_keeps_it(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"commit_log_file_bytes": 32768, "max_message_bytes": 20000}
    async with running_broker(tmp_path / "master", **sizes) as master:
        await fill(master)
        async with running_broker(tmp_path / "slave", **SLAVE, max_message_bytes=20000):  # no master is known yet
            pass
        for _ in range(2):  # the second start goes by the files
            assert await follows(master, tmp_path / "slave", max_message_bytes=20000) == log_of(master)
    sized = {one.stat().st_size for one in (tmp_path / "slave" / "commitlog").iterdir()}
    assert sized == {32768}
