"""`pyromq msg trace` against a running broker, as a user calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.model.message_trace import (
    Consumed,
    ConsumeOutcome,
    ConsumeStarted,
    MessageKind,
    Sent,
    Traced,
    TransactionEnded,
)
from pyromq.protocol.trace import encode_trace, trace_keys
from tests.broker.running import Running, running_broker

TOPIC = "RMQ_SYS_TRACE_TOPIC"
SENT = Sent(
    message_id="ID1", time_ms=1_000, group="PG", topic="Orders", keys="k1", store_host="h:1", body_length=5, cost_ms=2
)
TAKEN = ConsumeStarted(message_id="ID1", time_ms=2_000, group="G", request_id="r1", keys="k1")
FAILED = Consumed(
    message_id="ID1",
    time_ms=2_007,
    group="G",
    request_id="r1",
    cost_ms=7,
    success=False,
    outcome=ConsumeOutcome.TIME_OUT,
)
AGAIN = ConsumeStarted(message_id="ID1", time_ms=9_000, group="G", request_id="r2", keys="k1", retries=1)
OTHER = Sent(message_id="ID2", time_ms=1_500, group="PG", topic="Orders", keys="k1", kind=MessageKind.HALF)
ENDED = TransactionEnded(
    message_id="ID2", time_ms=1_600, group="PG", topic="Orders", state="ROLLBACK_MESSAGE", from_check=True
)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def write(broker: Running, *events: Traced, topic: str = TOPIC) -> None:
    properties = {"KEYS": " ".join(trace_keys(events))}
    assert (await broker.send(topic=topic, body=encode_trace(events), properties=properties)).code == 0


async def run(broker: Running, *arguments: str) -> Result:
    """In a thread: the command has an event loop of its own."""
    words = ["msg", "trace", *arguments, "-b", broker.address]
    return await asyncio.to_thread(CliRunner().invoke, cli, words)


async def test_a_table_of_what_happened_in_order_of_time(broker: Running) -> None:
    await write(broker, AGAIN, FAILED)
    await write(broker, SENT, OTHER, TAKEN)
    shown = await run(broker, "ID1")
    assert shown.exit_code == 0, shown.output
    title, columns, *rows = shown.stdout.splitlines()
    assert title == "message ID1 of Orders"
    assert columns.split() == ["time", "what", "group", "took", "result", "details"]
    told = [row.split(maxsplit=2)[2].split("  ") for row in rows]
    assert [[cell.strip() for cell in row if cell.strip()] for row in told] == [
        ["sent", "PG", "2 ms", "ok", "normal, 5 bytes, to h:1, keys k1"],
        ["consumed", "G", "7 ms", "time out"],
        ["consumed", "G", "running", "retry 1"],
    ]


async def test_a_key_leads_to_its_messages_and_to_events_that_do_not_name_it(broker: Running) -> None:
    await write(broker, SENT, OTHER)
    await write(broker, ENDED)
    shown = await run(broker, "k1", "--json")
    first, second = (json.loads(line) for line in shown.stdout.splitlines())
    assert (first["messageId"], first["sent"][0]["bytes"], first["transactionEnds"]) == ("ID1", 5, [])
    assert second["messageId"] == "ID2"
    assert [(one["state"], one["fromCheck"]) for one in second["transactionEnds"]] == [("ROLLBACK_MESSAGE", True)]


async def test_another_trace_topic_and_what_is_no_trace(broker: Running) -> None:
    await write(broker, SENT, topic="Mine")
    await broker.send(topic="Mine", body=b"Pub\x01oops\x02", properties={"KEYS": "ID1"})
    assert (await run(broker, "ID1", "--trace-topic", "Mine")).exit_code == 0


async def test_exit_codes(broker: Running) -> None:
    missing = await run(broker, "nothing")
    assert missing.exit_code == 1
    assert f"no trace of nothing in {TOPIC}" in missing.output
    nobody = await asyncio.to_thread(
        CliRunner().invoke, cli, ["msg", "trace", "ID1", "-b", "127.0.0.1:1", "--timeout", "1"]
    )
    assert nobody.exit_code == 2
