"""`pyromq msg recheck`: a transaction that was given up is asked about again, and its message comes once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.produce.transactions import Transaction
from tests.cli.standing import Standing, standing

GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
LIMIT_S = 30


@pytest.fixture
def stands(tmp_path: Path) -> Iterator[Standing]:
    quick = {"transaction_check_interval": 50, "transaction_time_out": 0, "transaction_check_max": 1}
    with standing(tmp_path, **quick) as found:
        found.shown("topic", "create", "orders", "--queues", "1")
        yield found


async def until(done: Callable[[], bool]) -> None:
    """The broker's rounds take real time."""
    async with asyncio.timeout(LIMIT_S):
        for _ in itertools.count():
            if done():
                return
            await asyncio.sleep(0.02)


def count(stands: Standing, topic: str) -> int:
    queue = stands.world.brokers["broker-a"].broker.store.queues.get(topic, 0)
    return 0 if queue is None else queue.readable_end


async def given_up(stands: Standing) -> Transaction:
    """Nobody knows how it ended: its producer has no check handler."""
    async with stands.world.client() as client, client.producer("shop") as producer:
        async with producer.transaction("orders", "paid") as transaction:
            transaction.leave_open()
        await until(lambda: count(stands, GIVEN_UP) == 1)
        return transaction


async def delivered(stands: Standing, recheck: Callable[[], list[Any]]) -> list[Any]:
    """Run the command while a producer of the group can answer."""
    async with stands.world.client() as client, client.producer("shop") as producer:
        producer.transaction_check("orders", lambda msg: True)
        rows = await asyncio.to_thread(recheck)
        await until(lambda: count(stands, "orders") == 1)
        return rows


def test_what_was_given_up_is_asked_about_again_and_comes_once(stands: Standing) -> None:
    message_id = stands.do(given_up(stands)).message_id
    assert message_id in stands.shown("msg", "query", GIVEN_UP)
    (finding,) = [one for one in stands.rows("doctor") if one["check"] == "transactions"]
    assert finding["text"] == "broker-a has given up 1 transaction that nobody decided"
    assert "producer group shop" in finding["cure"]
    assert finding["command"].endswith(f"msg recheck {message_id}")
    others = stands.rows("topic", "create", "bills") and stands.rows("doctor", "--topic", "bills")
    assert "transactions" not in {one["check"] for one in others}
    assert f"of group shop be asked about {message_id} of topic orders again" in stands.shown(
        "msg", "recheck", message_id, "--dry-run"
    )
    stands.shown("broker", "config", "set", "transactionCheckMax", "1000", "--yes")
    (row,) = stands.do(delivered(stands, lambda: stands.rows("msg", "recheck", message_id)))
    assert row == {"messageId": message_id, "topic": "orders", "producerGroup": "shop", "broker": "broker-a"}
    assert "transactions" not in stands.shown("doctor")
    assert "no longer given up, it is ready" in stands.refused("msg", "recheck", message_id)
    assert count(stands, "orders") == 1


def test_nothing_else_is_taken(stands: Standing) -> None:
    (message_id,) = stands.send("orders", "plain")
    assert f"no message {message_id} was given up here" in stands.refused("msg", "recheck", message_id)
