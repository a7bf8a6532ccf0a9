"""What a broker knew is there again after a stop, and after a kill at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.store.queues.queue_table import QueueTable
from pyromq.transport.client import RemotingClient
from tests.broker.running import running_broker, turns_until
from tests.wire import decode_messages


async def test_a_stop_loses_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(20):
            await broker.send(body=str(number).encode())
        await broker.pull(offset=7, commitOffset=7, sysFlag=5)
        group = {"groupName": "Made", "retryMaxTimes": 2}
        await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(group).encode())
    async with running_broker(tmp_path) as broker:
        messages = decode_messages((await broker.pull()).body)
        assert [message.body for message in messages] == [str(number).encode() for number in range(20)]
        found = await broker.call(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0)
        assert found.fields == {"offset": "7"}
        assert broker.broker.groups.all()["Made"].retry_max_times == 2
        assert (await broker.send()).fields["queueOffset"] == "20"


async def test_offsets_are_written_while_it_runs(tmp_path: Path) -> None:
    async with running_broker(tmp_path, flush_consumer_offset_interval=10) as broker:
        await broker.send()
        await broker.pull(offset=1, commitOffset=1, sysFlag=5)
        file = tmp_path / "config" / "consumerOffset.json"
        await turns_until(lambda: broker.broker.tables.offset_save._saver.writes > 0)
        assert '"T@G":{\n\t\t\t0:1\n\t\t}' in file.read_text()


# What `pyromq broker` uses unless told otherwise, but for the log.
JAVA_SIZES: dict[str, Any] = {
    "queue_file_bytes": 6_000_000,
    "batch_queue_file_bytes": 13_800_000,
    "index_slots": 5_000_000,
    "index_entries": 20_000_000,
}


@asynccontextmanager
async def process(folder: Path, *options: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """`pyromq broker` as a process of its own."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", "broker", "--listen", "127.0.0.1:0", "--broker-name", "broker-a"),
        *("--store-path-root-dir", str(folder), "--log-level", "error", *options),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYROMQ_BROKER_COMMIT_LOG_FILE_BYTES": str(1 << 20)},
    )
    try:
        assert running.stdout is not None
        line = (await running.stdout.readline()).decode()
        yield line.split()[4], running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_a_kill_under_load_loses_nothing_that_was_acked(tmp_path: Path) -> None:
    """The page cache outlives the process, so even ASYNC_FLUSH promises this."""
    acked: list[int] = []
    enough = asyncio.Event()

    async def produce(client: RemotingClient, address: str) -> None:
        for number in range(100_000):
            fields = {"a": "P", "b": "T", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
            request = Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields, body=str(number).encode())
            if (await client.call(address, request, 20)).code == 0:
                acked.append(number)
            if len(acked) == 300:
                enough.set()

    async with (
        RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client,
        process(tmp_path) as (address, running),
    ):
        producing = asyncio.create_task(produce(client, address))
        await enough.wait()
        running.send_signal(signal.SIGKILL)
        await asyncio.gather(producing, return_exceptions=True)
    async with running_broker(tmp_path, **JAVA_SIZES) as broker:
        assert not broker.broker.store.recovery.clean_stop
        stored: list[int] = []
        while found := decode_messages((await broker.pull(offset=len(stored))).body):
            stored += [int(message.body) for message in found]
        assert stored[: len(acked)] == acked


async def test_a_stop_by_signal_is_clean(tmp_path: Path) -> None:
    async with process(tmp_path) as (_, running):
        running.send_signal(signal.SIGTERM)
        assert await running.wait() == 0
    assert not (tmp_path / "abort").exists()


async def ask(client: RemotingClient, address: str, code: int, **fields: object) -> Command:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    answer = await client.call(address, Command(code=code, fields=texts), 20)
    assert answer.code == 0, answer
    return answer


@asynccontextmanager
async def with_offset_4_on_disk(folder: Path) -> AsyncIterator[tuple[RemotingClient, str]]:
    """A process with a group that has consumed 4 messages, which is on disk. The process is killed at the end."""
    async with running_broker(folder, **JAVA_SIZES) as broker:
        for _ in range(4):
            await broker.send()
        await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
        await broker.pull(offset=4, commitOffset=4, sysFlag=5)
    async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client, process(folder) as (address, _):
        yield client, address


async def test_a_kill_after_a_deletion_brings_no_offset_of_the_topic_back(tmp_path: Path) -> None:
    async with with_offset_4_on_disk(tmp_path) as (client, address):
        await ask(client, address, RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    async with running_broker(tmp_path, **JAVA_SIZES) as broker:
        assert "T" not in broker.broker.topics
        assert broker.broker.offsets.find("T", "G", 0) is None
        assert (await broker.send()).fields["queueOffset"] == "0"
        assert broker.broker.offsets.find("T", "G", 0) == 0


async def test_a_kill_after_a_topic_was_made_again_leaves_its_groups_at_the_first_message(tmp_path: Path) -> None:
    async with with_offset_4_on_disk(tmp_path) as (client, address):
        await ask(client, address, RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        topic = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        made = topic | {"topicFilterType": "SINGLE_TAG", "order": False}
        await ask(client, address, RequestCode.UPDATE_AND_CREATE_TOPIC, **made)
    async with running_broker(tmp_path, **JAVA_SIZES) as broker:
        assert broker.broker.offsets.find("T", "G", 0) == 0


async def test_a_kill_after_a_deletion_brings_no_offset_of_the_group_back(tmp_path: Path) -> None:
    async with with_offset_4_on_disk(tmp_path) as (client, address):
        await ask(client, address, RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", cleanOffset=True)
    async with running_broker(tmp_path, **JAVA_SIZES) as broker:
        assert "G" not in broker.broker.groups
        assert broker.broker.offsets.find("T", "G", 0) is None


async def test_a_kill_takes_no_offset_back_that_an_administrator_has_set(tmp_path: Path) -> None:
    async with with_offset_4_on_disk(tmp_path) as (client, address):
        of_group = {"consumerGroup": "G", "topic": "T", "queueId": 0}
        await ask(client, address, RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=1, **of_group)
    async with running_broker(tmp_path, **JAVA_SIZES) as broker:
        assert broker.broker.offsets.find("T", "G", 0) == 1


async def test_a_topic_on_its_way_out_has_no_offset_on_disk_once_its_queues_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill at that moment would leave the topic, queues that begin anew, and an offset that skips their messages."""
    at_removal: list[str] = []
    remove = QueueTable.remove_topic

    def note(queues: QueueTable, topic: str) -> None:
        at_removal.append((tmp_path / "config" / "consumerOffset.json").read_text())
        remove(queues, topic)

    monkeypatch.setattr(QueueTable, "remove_topic", note)  # first: a broker may keep the method
    async with running_broker(tmp_path) as broker:
        await broker.send()
        await broker.pull(offset=1, commitOffset=1, sysFlag=5)
        await broker.broker.tables.offsets_saved()
        assert "T@G" in (tmp_path / "config" / "consumerOffset.json").read_text()
        assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
        assert at_removal
        assert not any("T@G" in text for text in at_removal)
