"""`pyromq up --replicas 3`: an elected set on one machine, with an etcd that it starts and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import pyromq
from pyromq.cli.serve.replicas import replica_homes
from pyromq.errors import ConfigError, PyroError
from tests.coordination.etcd_peer import require_etcd
from tests.interop.peers.process import Program

LIMIT_S = 60.0


async def send(name_server: str) -> None:
    """Send until the set takes it."""
    async with pyromq.connect(name_server) as client, client.producer() as producer, asyncio.timeout(LIMIT_S):
        while True:
            try:
                await producer.send("orders", b"hello")
            except PyroError:
                await asyncio.sleep(0.1)
            else:
                return


def test_a_set_is_up_and_takes_sends_and_everything_ends_with_it(tmp_path: Path) -> None:
    require_etcd()
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pyromq.cli.main",
        "up",
        "--replicas",
        "3",
        "--data",
        tmp_path / "data",
        *ports,
    ]
    with Program(command, name="pyromq up", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        found = program.wait_for(r"PyroMQ is up. Name server (127\.0\.0\.1:\d+)")
        asyncio.run(send(found[1]))
        program.signal(signal.SIGTERM)
        assert program.wait() == 0, program.tail()
    assert {each.name for each in (tmp_path / "data").glob("replica-*")} == {"replica-1", "replica-2", "replica-3"}


def _children(pid: int) -> dict[str, int]:
    """Return the processes of `pyromq up` by their folders: etcd, replica-1 ..."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        option = "--data-dir" if "--data-dir" in words else "--store-path-root-dir"
        found[Path(words[words.index(option) + 1]).name] = int(child)
    return found


def test_a_broker_that_finds_no_etcd_is_tried_again_and_etcd_is_started_again(tmp_path: Path) -> None:
    require_etcd()
    ports = ("--namesrv-port", "0", "--broker-port", "0", "--grpc-port", "0")
    command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "up", "--replicas", "3", *ports]
    with Program(command, name="pyromq up", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        name_server = program.wait_for(r"PyroMQ is up. Name server (127\.0\.0\.1:\d+)")[1]
        children = _children(program.pid)
        os.kill(children["etcd"], signal.SIGSTOP)
        os.kill(children["replica-2"], signal.SIGKILL)
        program.wait_for("a broker could not start and is tried again")
        os.kill(children["etcd"], signal.SIGKILL)
        program.wait_for("etcd ended and is started again")
        program.wait_for("the broker is back broker=replica-2")
        asyncio.run(send(name_server))
        children = _children(program.pid)
        program.signal(signal.SIGTERM)
        assert program.wait() == 0, program.tail()
    for pid in children.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_folder_with_other_stores_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broker-0").mkdir()
    with pytest.raises(ConfigError, match="also holds broker-0"):
        replica_homes(tmp_path, 3, "127.0.0.1", 0, None, "")
    with pytest.raises(ConfigError, match="from 2 to 7"):
        replica_homes(tmp_path / "other", 1, "127.0.0.1", 0, None, "")
