"""`pyromq namesrv` as a process: ready line, signals, kill -9, restarts, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import CallFailed
from pyromq.protocol.bodies.registration import encode_registration
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.namesrv.builders import topics
from tests.namesrv.world import broker_body, broker_header

PATIENCE_S = 60  # a test that hangs must end; nothing is measured


class Daemon:
    """A running name server."""

    def __init__(self, process: asyncio.subprocess.Process, address: str, client: RemotingClient) -> None:
        self.process = process
        self.address = address
        self._client = client

    async def ask(self, code: int, body: bytes = b"", **fields: str) -> Command:
        return await self._client.call(self.address, Command(code, fields=fields, body=body), PATIENCE_S)

    async def end(self, number: int) -> tuple[int, str]:
        """Exit code and everything on stderr."""
        self.process.send_signal(number)
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PYROMQ_")}


async def start(folder: Path, *arguments: str, listen: str = "127.0.0.1:0") -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", "namesrv", "--listen", listen),
        *("--kv-config-path", str(folder / "kvConfig.json"), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )


@asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[Daemon]:
    process = await start(folder, *arguments)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if not line:
            assert process.stderr is not None
            pytest.fail(f"it did not start: {(await process.stderr.read()).decode()}")
        assert line.startswith("pyromq namesrv ready on 127.0.0.1:"), line
        async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client:
            yield Daemon(process, line.split()[-1], client)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def refused(folder: Path, *arguments: str, listen: str = "127.0.0.1:0") -> str:
    """What it says on stderr when it does not start; exit code 78 and no ready line."""
    process = await start(folder, *arguments, listen=listen)
    output, errors = await process.communicate()
    assert (process.returncode, output) == (78, b"")
    return errors.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_on_a_free_port_and_ends_cleanly(tmp_path: Path, number: int) -> None:
    async with running(tmp_path) as daemon:
        body = encode_registration(broker_body(topics("TopicA", "TopicB")))
        fields = broker_header().to_fields()
        assert (await daemon.ask(Code.REGISTER_BROKER, body, **fields)).code == 0
        response = await daemon.ask(Code.GET_ROUTEINFO_BY_TOPIC, topic="TopicA")
        assert b'"0":"broker-a-0:10911"' in response.body
        code, errors = await daemon.end(number)
    assert code == 0
    assert "Traceback" not in errors


async def test_acknowledged_kv_configuration_survives_kill_9(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        acked: list[int] = []

        async def put(number: int) -> None:
            response = await daemon.ask(Code.PUT_KV_CONFIG, namespace="ns", key=str(number), value="v" * number)
            assert response.code == 0
            acked.append(number)

        puts = [asyncio.create_task(put(number)) for number in range(400)]
        # Some are answered, some are being written, some wait: the moment to die.
        await asyncio.wait(puts, return_when=asyncio.FIRST_COMPLETED)
        code, _ = await daemon.end(signal.SIGKILL)
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert all(one is None or isinstance(one, CallFailed) for one in outcomes)
    assert code == -signal.SIGKILL
    assert acked
    async with running(tmp_path) as daemon:
        response = await daemon.ask(Code.GET_KVLIST_BY_NAMESPACE, namespace="ns")
        table = json.loads(bytes(response.body))["table"]
    assert {str(number) for number in acked} <= table.keys()
    assert all(value == "v" * int(key) for key, value in table.items())


async def test_settings_changed_over_the_wire_survive_a_restart_and_the_users_file_stays_as_it_was(
    tmp_path: Path,
) -> None:
    file = tmp_path / "namesrv.conf"
    text = "# mine\nenableTopicList=true\nwaitSecondsForService=7\n"
    file.write_text(text)
    async with running(tmp_path, "-c", str(file)) as daemon:
        assert (await daemon.ask(Code.UPDATE_NAMESRV_CONFIG, b"enableTopicList=false")).code == 0
        await daemon.end(signal.SIGKILL)
    assert file.read_text() == text
    async with running(tmp_path, "-c", str(file)) as daemon:
        shown = (await daemon.ask(Code.GET_NAMESRV_CONFIG)).body
        _, errors = await daemon.end(signal.SIGTERM)
    assert b"\nenableTopicList=false\n" in shown
    assert b"\nwaitSecondsForService=7\n" in shown
    assert "replaces true" in errors  # said once at start, so that nobody wonders about the file


async def test_log_lines_can_be_json(tmp_path: Path) -> None:
    async with running(tmp_path, "--log-format", "json") as daemon:
        body = encode_registration(broker_body(topics("TopicA", "TopicB")))
        await daemon.ask(Code.REGISTER_BROKER, body, **broker_header().to_fields())
        _, errors = await daemon.end(signal.SIGTERM)
    events = [json.loads(line)["event"] for line in errors.splitlines()]
    assert "broker registered" in events
    assert events[-1] == "name server stopped"


async def test_keys_without_effect_are_reported_once_at_start(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("defaultThreadPoolNums=4\n")
    async with running(tmp_path, "-c", str(file)) as daemon:
        _, errors = await daemon.end(signal.SIGTERM)
    assert errors.count("defaultThreadPoolNums has no effect") == 1


async def test_a_port_in_use_is_named_with_the_way_to_choose_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = await refused(tmp_path, listen=f"127.0.0.1:{port}")
    assert f"port {port} on 127.0.0.1 is in use" in said
    assert "(pyromq up --namesrv-port PORT, pyromq namesrv --listen 127.0.0.1:PORT, or listenPort" in said
    assert said.count("\n") == 1


async def test_an_unreadable_kv_file_is_refused_with_its_path_and_the_bak_that_could_be_used(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    async with running(tmp_path) as daemon:
        for value in ("1", "2"):
            await daemon.ask(Code.PUT_KV_CONFIG, namespace="ns", key="k", value=value)
        await daemon.end(signal.SIGTERM)
    path.write_bytes(path.read_bytes()[:-5])
    said = await refused(tmp_path)
    assert f"cannot read the KV configuration {path}" in said
    assert f"`mv {path} {path}.broken; cp {path}.bak {path}`" in said
    path.write_bytes(path.with_name("kvConfig.json.bak").read_bytes())
    async with running(tmp_path) as daemon:
        assert (await daemon.ask(Code.GET_KV_CONFIG, namespace="ns", key="k")).fields == {"value": "1"}


@pytest.mark.parametrize(
    ("arguments", "listen", "words"),
    [
        ((), "0.0.0.0:0", "--insecure"),
        ((), "nonsense", "is no address"),
        (("-c", "{folder}/absent.conf"), "127.0.0.1:0", "absent.conf"),
        (("-c", "{folder}/unknown.conf"), "127.0.0.1:0", "did you mean 'orderMessageEnable'"),
    ],
)
async def test_what_cannot_be_started_says_why_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], listen: str, words: str
) -> None:
    (tmp_path / "unknown.conf").write_text("orderMesageEnable=true\n")
    said = await refused(tmp_path, *(one.format(folder=tmp_path) for one in arguments), listen=listen)
    assert words in said
    assert said.startswith("pyromq: ")
    assert said.count("\n") == 1


async def test_insecure_allows_every_address(tmp_path: Path) -> None:
    process = await start(tmp_path, "--insecure", listen="0.0.0.0:0")
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"pyromq namesrv ready on 0.0.0.0:")
    process.terminate()
    await process.communicate()
    assert process.returncode == 0
