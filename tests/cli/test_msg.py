"""`pyromq msg` against a running broker, as a user calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker
from tests.client.world import World
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def run(*arguments: str) -> Result:
    """In a thread: the command has an event loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, cli, ["msg", *arguments])


async def dead_letter(broker: Running) -> None:
    await broker.send(properties={"UNIQ_KEY": "U1", "KEYS": "order-1"})
    (message,) = decode_messages((await broker.pull()).body)
    fields: dict[str, Any] = {
        "offset": message.physical_offset,
        "group": "G",
        "delayLevel": -1,
        "pyroReason": "no credit",
    }
    assert (await broker.call(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)).code == 0


async def test_get_tells_the_life_of_a_message(broker: Running) -> None:
    await dead_letter(broker)
    shown = await run("get", "T", "U1", "-b", broker.address)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert "message      U1" in lines
    assert "state        ready" in lines
    (of_group,) = (line for line in lines if line.startswith("group "))
    assert of_group.startswith("group        G: dead after 1 attempt since ")
    assert of_group.endswith(": no credit")
    assert " stored: T queue 0 offset 0 (" in lines[-2]
    assert " dead: %DLQ%G queue 0 offset 0 (" in lines[-1]


async def test_get_as_json_and_by_key(broker: Running) -> None:
    await broker.send(properties={"UNIQ_KEY": "U2", "KEYS": "later", "DELAY": "18"})
    shown = await run("get", "T", "later", "-b", broker.address, "--json")
    found = json.loads(shown.stdout)
    assert (found["id"], found["state"], found["broker"]) == ("U2", "timed", broker.address)
    table = await run("get", "T", "U2", "-b", broker.address)
    assert "state        timed until " in table.output


async def test_exit_codes(broker: Running) -> None:
    await broker.send()
    missing = await run("get", "T", "nothing", "-b", broker.address)
    assert missing.exit_code == 1
    assert "no message nothing of topic T is known here" in missing.output
    nobody = await run("get", "T", "U1", "-b", "127.0.0.1:1", "--timeout", "1")
    assert nobody.exit_code == 2


async def test_dead_lists_groups_and_messages_with_their_time_left(broker: Running) -> None:
    assert "no dead letters" in (await run("dead", "-b", broker.address)).output
    await dead_letter(broker)
    groups = await run("dead", "-b", broker.address)
    assert "71 h 59 min" in groups.stdout or "72 h 0 min" in groups.output
    messages = await run("dead", "G", "-b", broker.address)
    assert messages.stdout.splitlines()[1].startswith("U1 ")
    found = json.loads((await run("dead", "G", "-b", broker.address, "--json")).stdout)
    assert (found["messageId"], found["topic"], found["attempts"]) == ("U1", "T", 1)
    assert (await run("dead", "nobody", "-b", broker.address)).exit_code == 1


async def test_a_name_server_leads_to_all_brokers(tmp_path: Path) -> None:
    two = World(tmp_path)
    try:
        names = await two.start_name_server()
        for name in ("broker-a", "broker-b"):
            await two.start_broker(name)
        await two.create_topic("T", 1)
        async with two.client() as client, client.producer() as producer:
            sent = [await producer.send("T", f"m{number}") for number in range(4)]
        assert {one.queue.broker_name for one in sent} == {"broker-a", "broker-b"}
        for one in sent:
            found = json.loads((await run("get", "T", one.message_id, "-n", names, "--json")).stdout)
            assert (found["id"], found["broker"]) == (one.message_id, two.brokers[one.queue.broker_name].address)
        assert (await run("get", "T", "nothing", "-n", names)).exit_code == 1
    finally:
        await two.close()
