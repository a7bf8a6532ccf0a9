"""Brokers and name servers as processes of their own that are stopped in their tracks, and TLS."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.client.client import Client, connect
from pyromq.client.errors import Error, NoNameServer
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.transport.tls import ClientTls
from tests.client.world import Servers, turns_until
from tests.transport.certificates import Authority


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A daemon of ours, once it says its address. Killed at the end, stopped or not."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", *arguments, "--listen", "127.0.0.1:0", "--log-level", "error"),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYROMQ_BROKER_COMMIT_LOG_FILE_BYTES": str(1 << 20)},
    )
    try:
        assert running.stdout is not None
        yield (await running.stdout.readline()).decode().split()[4], running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def both_known(client: Client, topic: str) -> None:
    """The topic was made on one broker, which tells the other; then the client reads it from the name servers."""
    while True:
        try:
            if len((await client.session.read_route(topic)).addresses) == 2:
                return
        except Error:
            continue


@pytest.mark.parametrize("fault", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_broker_stopped_or_killed_with_its_name_server_fails_no_send_without_key(
    tmp_path: Path, fault: signal.Signals
) -> None:
    """Neither those that are under way at that moment, nor those that come after it."""
    names = ["namesrv", "--kv-config-path", str(tmp_path / "kv.json")]
    async with (
        process(*names) as (first, stopped_names),
        process(*names[:2], str(tmp_path / "kv2.json")) as (second, _),
    ):
        brokers = [
            ["broker", "--broker-name", name, "-n", f"{first};{second}", "--store-path-root-dir", str(tmp_path / name)]
            for name in ("broker-a", "broker-b")
        ]
        async with (
            process(*brokers[0]) as (_, stopped),
            process(*brokers[1]),
            connect(f"{first};{second}") as client,
            client.producer(policy=SendPolicy(timeout_s=6)) as producer,  # twice the default: CI is a busy place
        ):
            await both_known(client, "TBW102")
            await producer.send("T", b"x", timeout=20)
            await both_known(client, "T")
            under_way = [asyncio.create_task(producer.send("T", b"x")) for _ in range(40)]
            await asyncio.sleep(0)
            for each in (stopped, stopped_names):
                each.send_signal(fault)
            await asyncio.gather(*under_way)
            results = [await producer.send("T", b"x") for _ in range(30)]
            assert {each.queue.broker_name for each in results} == {"broker-b"}
            assert (await producer.send("Fresh", b"x", timeout=20)).queue.broker_name == "broker-b"


async def test_the_other_name_server_takes_over(empty_world: Servers) -> None:
    first, second = [await empty_world.start_name_server() for _ in range(2)]
    await empty_world.start_broker()
    got: list[bytes] = []

    async def handle(msg: Received) -> None:
        got.append(msg.body)

    begin = ConsumeFromWhere.FIRST_OFFSET
    async with empty_world.client() as client, client.producer() as producer:
        await producer.send("T", b"0")
        async with client.push_consumer("T", handle, group="g", begin=begin):
            for number, address in enumerate((first, second), 1):
                await empty_world.stop_name_server(address)
                await producer.send("T", str(number))  # known brokers serve on without any name server
            await turns_until(lambda: len(got) == 3)
            with pytest.raises(NoNameServer):
                await producer.send("Unknown", b"x")


async def test_tls_to_name_server_and_broker(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server")
    lines = f"tls.server.mode=enforcing\ntls.server.certPath={pair.certificate}\ntls.server.keyPath={pair.key}\n"
    lines += f"tls.enable=true\ntls.client.authServer=true\ntls.client.trustCertPath={authority.file}\n"
    (tmp_path / "tls.conf").write_text(lines)
    conf = ["-c", str(tmp_path / "tls.conf")]
    names = ["namesrv", "--kv-config-path", str(tmp_path / "kv.json"), *conf]
    async with process(*names) as (address, _):
        broker = [
            "broker",
            "-n",
            address,
            "--broker-name",
            "broker-a",
            "--store-path-root-dir",
            str(tmp_path / "store"),
        ]
        async with process(*broker, *conf):
            async with connect(address, tls=ClientTls(ca=authority.file)) as client, client.producer() as producer:
                while not (await client.session.name_servers.topics()):
                    pass
                assert (await producer.send("T", b"x", timeout=20)).queue_offset == 0
            async with connect(address, tls=ClientTls()) as stranger:
                with pytest.raises(NoNameServer, match="certificate"):
                    await stranger.session.route("T")
            async with connect(address) as plain:
                with pytest.raises(NoNameServer):
                    await plain.session.route("T")
