"""`pyromq up --brokers N`: processes of one cluster; a death is mended; one stop ends all."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import pyromq
from pyromq.cli.main import cli
from pyromq.cli.serve.brokers import check_single, places
from pyromq.errors import ConfigError
from pyromq.kernel.choice import kernel_name


class Cluster:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line_with(self, text: str) -> str:
        """The next line that has it; what went before is kept for a failure's sake."""
        assert self.process.stdout is not None
        while raw := await self.process.stdout.readline():
            self.lines.append(raw.decode())
            if text in self.lines[-1]:
                return self.lines[-1]
        raise AssertionError("".join(self.lines))

    def children(self) -> dict[str, int]:
        """Process ids by broker name."""
        found = {}
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            found[words[words.index("--broker-name") + 1]] = int(pid)
        return found


@asynccontextmanager
async def up(folder: Path, *flags: str) -> AsyncIterator[Cluster]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", "up", "--data", str(folder), "--namesrv-port", "0", "--broker-port", "0"),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Cluster(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_a_cluster_of_two_serves_mends_itself_and_stops_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")  # of the user's other cluster
    async with up(tmp_path / "data", "--brokers", "2", "--grpc-port", "0") as cluster:
        welcome = await cluster.line_with("PyroMQ is up")
        addresses = re.findall(r"127\.0\.0\.1:\d+", welcome)
        assert len(addresses) == 3
        assert not any("NAMESRV_ADDR" in line or "namesrv-addr" in line for line in cluster.lines)
        assert f"({kernel_name()} kernel)" in welcome
        assert sum("self-signed certificate" in line for line in cluster.lines) == 3  # each says it
        assert sum("gRPC clients are served" in line for line in cluster.lines) == 2
        tls = pyromq.ClientTls(ca=tmp_path / "data" / "tls" / "self-signed.crt")
        used: set[str] = set()
        while len(used) < 2:  # the first send makes the topic, on the other broker a moment later
            async with pyromq.connect(addresses[0], tls=tls) as client, client.producer("P") as producer:
                sent = [await producer.send("Spread", b"%d" % number) for number in range(16)]
                used |= {one.queue.broker_name for one in sent}
        assert used == {"broker-0", "broker-1"}
        before = cluster.children()
        os.kill(before["broker-1"], signal.SIGKILL)
        assert "SIGKILL" in await cluster.line_with("a broker ended and is started again")
        await cluster.line_with("the broker is back")
        after = cluster.children()
        assert after["broker-0"] == before["broker-0"]
        assert after["broker-1"] != before["broker-1"]
        cluster.process.terminate()
        rest, _ = await cluster.process.communicate()
        assert (cluster.process.returncode, rest.decode().count("broker stopped")) == (0, 2)
        for pid in after.values():
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    assert sorted(one.name for one in (tmp_path / "data").iterdir()) == ["broker-0", "broker-1", "namesrv", "tls"]


async def test_one_that_does_not_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "lock").mkdir()  # not a file that can be locked
    async with up(tmp_path, "--brokers", "2", "--log-level", "error") as cluster:
        output, _ = await cluster.process.communicate()
        assert cluster.process.returncode == 78
        assert "broker-1 did not start: exit code 78" in output.decode()
        assert str(tmp_path / "broker-1" / "lock") in output.decode()


def test_names_folders_and_ports(tmp_path: Path) -> None:
    found = [(one.name, one.folder.name, one.port) for one in places(tmp_path, 3, "127.0.0.1", 10911)]
    assert found == [("broker-0", "broker-0", 10911), ("broker-1", "broker-1", 10921), ("broker-2", "broker-2", 10931)]
    assert [one.port for one in places(tmp_path, 2, "127.0.0.1", 0)] == [0, 0]
    assert [one.port for one in places(tmp_path, 2, "127.0.0.1", 65525)] == [65525, 65535]
    for first, all_ in ((None, [None, None]), (0, [0, 0]), (-1, [-1, -1]), (8081, [8081, 8091])):
        assert [one.grpc_port for one in places(tmp_path, 2, "127.0.0.1", 10911, first)] == all_


def test_data_must_be_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = CliRunner().invoke(cli, ["up", "--data", str(file)])
    assert (done.exit_code, "is a file: name a folder" in done.stderr) == (64, True)


def test_ports_that_do_not_exist_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--broker-port 65526 with --brokers 2: .* would be 65536"):
        places(tmp_path, 2, "127.0.0.1", 65526)


@pytest.mark.parametrize(
    ("folder", "count", "fault"),
    [("store", 2, "single broker"), ("broker-2", 2, "also holds broker-2"), ("x", 0, "--brokers 0"), ("x", 65, "64")],
)
def test_a_folder_with_other_brokers_is_refused(tmp_path: Path, folder: str, count: int, fault: str) -> None:
    (tmp_path / folder).mkdir()
    with pytest.raises(ConfigError, match=fault):
        places(tmp_path, count, "127.0.0.1", 10911)


async def test_a_folder_of_several_is_not_taken_by_one(tmp_path: Path) -> None:
    """It would start a new, empty broker beside them."""
    for name in ("broker-0", "broker-1"):
        (tmp_path / name).mkdir()
    async with up(tmp_path) as alone:
        output, _ = await alone.process.communicate()
        assert alone.process.returncode == 78
        words = (
            f"{tmp_path} holds the stores of broker-0, broker-1, which would not be served: start them with --brokers 2"
        )
        assert words in output.decode()
    assert sorted(os.listdir(tmp_path)) == ["broker-0", "broker-1"]


def test_a_folder_of_both_kinds_says_what_to_move(tmp_path: Path) -> None:
    for name in ("broker-0", "broker-10", "broker-2", "store"):
        (tmp_path / name).mkdir()
    both = r"holds both the store of a single broker .* and those of broker-0, broker-2, broker-10, .* move store"
    with pytest.raises(ConfigError, match=both):
        check_single(tmp_path)
    with pytest.raises(ConfigError, match=both):
        places(tmp_path, 11, "127.0.0.1", 0)


def test_folders_that_are_not_of_several_are_let_alone(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "broker-notes").mkdir()
    (tmp_path / "broker-0").write_text("a file")
    check_single(tmp_path)
    check_single(tmp_path / "not there yet")


async def test_a_broker_with_a_slave_answers_when_the_slave_has_it(tmp_path: Path) -> None:
    async with up(tmp_path / "data", "--brokers", "1", "--slaves", "1", "--grpc-port", "-1") as cluster:
        welcome = await cluster.line_with("PyroMQ is up")
        addresses = re.findall(r"127\.0\.0\.1:\d+", welcome)
        assert len(addresses) == 3
        assert f"broker {addresses[1]} with slave {addresses[2]} (" in welcome
        await cluster.line_with("enough slaves are in sync")
        tls = pyromq.ClientTls(ca=tmp_path / "data" / "tls" / "self-signed.crt")
        async with pyromq.connect(addresses[0], tls=tls) as client, client.producer("P") as producer:
            sent = await producer.send("Copied", b"to the slave")
            assert sent.status is pyromq.SendStatus.OK
        (log,) = (tmp_path / "data" / "broker-0-slave-1" / "commitlog").glob("*0")
        assert b"to the slave" in log.read_bytes()[: 1 << 20]


def test_slaves_have_homes_and_roles_of_their_own(tmp_path: Path) -> None:
    homes = places(tmp_path, 2, "127.0.0.1", 10911, None, slaves=1)
    assert [(home.name, home.folder.name, home.port) for home in homes] == [
        ("broker-0", "broker-0", 10911),
        ("broker-1", "broker-1", 10921),
        ("broker-0", "broker-0-slave-1", 10931),
        ("broker-1", "broker-1-slave-1", 10941),
    ]
    assert [home.role["PYROMQ_BROKER_BROKER_ROLE"] for home in homes] == ["SYNC_MASTER"] * 2 + ["SLAVE"] * 2
    assert not any(home.role for home in places(tmp_path, 2, "127.0.0.1", 10911))


def test_a_folder_with_slaves_is_not_started_without_them(tmp_path: Path) -> None:
    (tmp_path / "broker-0-slave-1").mkdir(parents=True)
    with pytest.raises(ConfigError, match="also holds broker-0-slave-1"):
        places(tmp_path, 1, "127.0.0.1", 10911)
    assert places(tmp_path, 1, "127.0.0.1", 10911, slaves=1)


@pytest.mark.parametrize("slaves", [-1, 64])
def test_a_number_of_slaves_that_cannot_be_is_refused(tmp_path: Path, slaves: int) -> None:
    with pytest.raises(ConfigError, match=f"--slaves {slaves}"):
        places(tmp_path, 1, "127.0.0.1", 10911, slaves=slaves)


def test_slaves_need_brokers(tmp_path: Path) -> None:
    found = CliRunner().invoke(cli, ["up", "--data", str(tmp_path), "--slaves", "1"])
    assert found.exit_code == 64
    assert "it needs --brokers" in found.output
