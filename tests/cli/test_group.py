"""`pyromq group` against a running broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    """Five messages in queue 0, one in queue 1; the group has done two."""
    async with running_broker(tmp_path) as running:
        for number in range(5):
            await running.send(body=str(number).encode())
        await running.send(body=b"other", queue=1)
        await running.pull()
        for queue, offset in ((0, 2), (1, 0)):
            fields: dict[str, Any] = {"topic": "T", "consumerGroup": "G", "queueId": queue, "commitOffset": offset}
            await running.call(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)
        yield running


async def run(broker: Running, *arguments: str) -> Result:
    words = ["group", *arguments, "-b", broker.address, "--yes"]
    return await asyncio.to_thread(CliRunner().invoke, cli, words)


def moved(shown: Result) -> list[dict[str, Any]]:
    assert shown.exit_code == 0, shown.output
    return [json.loads(line) for line in shown.stdout.splitlines()]


def place(topic: str, queue: int, offset: int) -> dict[str, Any]:
    return {"topic": topic, "broker": "broker-a", "queue": queue, "goesOnAt": offset}


def offsets(broker: Running, topic: str = "T") -> dict[int, int]:
    return dict(broker.broker.offsets.queues(topic, "G"))


async def test_skip_goes_past_everything(broker: Running) -> None:
    done = await run(broker, "skip", "G", "T")
    assert [line.split() for line in done.stdout.splitlines()[:3]] == [
        ["topic", "broker", "queue", "goes", "on", "at"],
        ["T", "broker-a", "0", "5"],
        ["T", "broker-a", "1", "1"],
    ]
    assert offsets(broker) == {0: 5, 1: 1, 2: 0, 3: 0}


async def test_skip_one_stuck_message_of_one_queue(broker: Running) -> None:
    """Its member is online: it is told at its next pull."""
    member = ConsumerData(group_name="G", subscription_data_set=[SubscriptionData(topic="T", sub_string="*")])
    beat = encode_body(HeartbeatData(client_id="c", consumer_data_set=[member]))
    assert (await broker.call(RequestCode.HEART_BEAT, beat)).code == 0
    done = await run(broker, "skip", "G", "T", "--queue", "0", "--messages", "1", "--json")
    assert moved(done) == [place("T", 0, 3)]
    assert offsets(broker) == {0: 3, 1: 0}
    answer = await broker.pull(offset=2)
    assert int(answer.fields["nextBeginOffset"]) == 3
    assert [one.body for one in decode_messages((await broker.pull(offset=3)).body)] == [b"3", b"4"]


async def test_the_next_member_of_a_group_that_was_offline_begins_at_once(broker: Running) -> None:
    """No reset is pending: the first pull would be answered by it, and the member stand still for ten seconds."""
    done = await run(broker, "reset", "G", "T", "--time", "0", "--json")
    assert place("T", 0, 0) in moved(done)
    assert [one.body for one in decode_messages((await broker.pull(offset=0)).body)] == [b"0", b"1", b"2", b"3", b"4"]


async def test_an_earlier_reset_that_nobody_has_seen_is_replaced(broker: Running) -> None:
    fields: dict[str, Any] = {"topic": "T", "group": "G", "timestamp": 0, "isForce": True}
    assert (await broker.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields)).code == 0
    done = await run(broker, "reset", "G", "T", "--queue", "0", "--offset", "4", "--json")
    assert moved(done) == [place("T", 0, 4)]
    assert offsets(broker)[0] == 4
    assert int((await broker.pull(offset=0)).fields["nextBeginOffset"]) == 4


async def test_skip_with_what_waits_for_a_retry(broker: Running) -> None:
    (message, *_) = decode_messages((await broker.pull()).body)
    fields: dict[str, Any] = {"offset": message.physical_offset, "group": "G", "delayLevel": 1}
    await broker.call(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)
    await broker.pull("%RETRY%G", suspendTimeoutMillis=18_000, sysFlag=6)  # held until it is there
    done = await run(broker, "skip", "G", "T", "--retries", "--json")
    assert place("%RETRY%G", 0, 1) in moved(done)
    assert offsets(broker, "%RETRY%G") == {0: 1}


async def test_reset_by_offset_and_by_time(broker: Running) -> None:
    done = await run(broker, "reset", "G", "T", "--queue", "0", "--offset", "1", "--json")
    assert moved(done) == [place("T", 0, 1)]
    stored = decode_messages((await broker.pull(group="other", offset=0)).body)
    done = await run(broker, "reset", "G", "T", "--queue", "0", "--time", str(stored[0].store_timestamp), "--json")
    assert moved(done) == [place("T", 0, 0)]
    done = await run(broker, "reset", "G", "T", "--queue", "0", "--time", "2100-01-01T00:00:00", "--json")
    assert moved(done) == [place("T", 0, 5)]


@pytest.mark.parametrize(
    ("place_named", "offset"),
    [("first", 0), ("last", 5), ("now", 5), ("-1h", 0), ("yesterday 00:00", 0), ("+1d", 5), ("2026-01-01", 0)],
)
async def test_reset_to_a_place_by_name(broker: Running, place_named: str, offset: int) -> None:
    done = await run(broker, "reset", "G", "T", "--queue", "0", "--to", place_named, "--json")
    assert moved(done) == [place("T", 0, offset)]
    assert offsets(broker)[0] == offset


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["skip", "G", "TT"], 1, "there is no topic 'TT'. Closest: 'T'"),
        (["reset", "GG", "T", "--time", "0"], 1, "there is no group 'GG'. Closest: 'G'"),
        (["reset", "G", "T", "--queue", "0", "--offset", "99"], 1, "queue 0 of T on 127.0.0.1"),
        (["skip", "G", "T", "--queue", "3", "--messages", "1"], 1, "has no offset in queue 3"),
        (["skip", "G", "T", "--queue", "0", "--messages", "99999", "--dry-run"], 1, "has offsets 0 to "),
        (["skip", "G", "T", "--messages", "1"], None, "give --queue and -b"),
        (["reset", "G", "T"], None, "either --to, or --offset"),
        (["reset", "G", "T", "--to", "soon"], None, "neither milliseconds nor a time"),
    ],
)
async def test_what_cannot_be_is_refused_in_words(
    broker: Running, arguments: list[str], code: int | None, said: str
) -> None:
    done = await run(broker, *arguments)
    assert done.exit_code not in (0, None)
    assert code is None or done.exit_code == code
    assert said in done.output
    assert offsets(broker) == {0: 2, 1: 0}


async def test_a_dry_run_shows_where_it_would_go(broker: Running) -> None:
    done = await run(broker, "skip", "G", "T", "--queue", "0", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "would let group G skip what waits in T" in done.stdout
    assert ["T", "broker-a", "0", "2", "5", "3", "0"] in [line.split() for line in done.stdout.splitlines()]
    assert "nothing was changed" in done.stdout
    assert offsets(broker) == {0: 2, 1: 0}
