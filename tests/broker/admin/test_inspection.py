"""What is inside a broker, and whether it is ready: over the wire and as a command."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import DiskFull
from pyromq.store.queues.consume_queue import ConsumeQueue
from tests.broker.running import Running, running_broker, turns_until


async def inspect(broker: Running) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes((await broker.call(RequestCode.INSPECT)).body))
    return found


async def test_what_is_held_locked_and_in_conflict_is_listed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send()
        held = asyncio.create_task(broker.pull(offset=1, sysFlag=6, suspendTimeoutMillis=60_000))
        await turns_until(lambda: len(broker.broker.pulls.suspended) == 1)
        lock = {
            "clientId": "c1",
            "consumerGroup": "G",
            "mqSet": [{"brokerName": "broker-a", "queueId": 2, "topic": "T"}],
        }
        await broker.call(RequestCode.LOCK_BATCH_MQ, json.dumps(lock).encode())
        for level in (17, 18, 18):
            await broker.send(properties={"DELAY": str(level)})
        found = await inspect(broker)
        assert found["ready"]
        assert found["parked"] == {"delay level 17": 1, "delay level 18": 2}
        assert found["polled"] == {"pulls": 1, "byTopic": {"T": 1}}
        assert [(one["group"], one["queue"], one["client"]) for one in found["locked"]] == [("G", 2, "c1")]
        assert found["connections"] == 1
        held.cancel()


async def test_the_duplicate_window_is_listed(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "on", duplicate_window_enable=True) as broker:
        for sequence in (1, 2, 2):
            await broker.send(properties={"__SEND_ID": f"p/1/{sequence}"})
        window = (await inspect(broker))["duplicateWindow"]
        assert window == {"enabled": True, "producers": 1, "sends": 2, "messages": 2}
    async with running_broker(tmp_path / "off") as broker:
        assert (await inspect(broker))["duplicateWindow"] == {"enabled": False}


async def test_a_broker_that_cannot_serve_says_why(tmp_path: Path) -> None:
    async with running_broker(tmp_path, namesrv_addr=("127.0.0.1:1",)) as broker:
        broker.broker.live.change("brokerPermission=4")
        found = await inspect(broker)
        assert not found["ready"]
        assert found["troubles"] == ["no name server knows it", "brokerPermission is 4"]
        assert list(found["nameServers"]) == ["127.0.0.1:1"]


async def command(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pyromq",
        "inspect",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_the_command_tells_by_its_exit_code(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        code, out = await command("-b", broker.address)
        assert (code, out.splitlines()[0]) == (0, "ready")
        broker.broker.live.change("brokerPermission=2")
        code, out = await command("-b", broker.address, "--json")
        assert (code, json.loads(out)["troubles"]) == (1, ["brokerPermission is 2"])
        assert await command("-b", broker.address, "-q") == (1, "")
    code, out = await command("-b", "127.0.0.1:1")
    assert (code, "127.0.0.1:1" in out) == (2, True)


async def test_a_broker_whose_last_message_found_no_room_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send()
        assert (await inspect(broker))["ready"]

        def full(*_: object, **__: object) -> None:
            raise DiskFull("No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(ConsumeQueue, "reserve", full)
            assert (await broker.send(queue=1)).code == ResponseCode.SERVICE_NOT_AVAILABLE  # whose file is not there
        assert (await inspect(broker))["troubles"] == ["No space left on device"]
        await broker.send()
        assert (await inspect(broker))["ready"]
