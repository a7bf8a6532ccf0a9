"""An order topic as `pyromq topic create --order` makes it, over two brokers of which one goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.client.errors import NoBroker
from pyromq.client.produce.sending import SendPolicy
from tests.cli.standing import Standing, standing

KEYS = [f"customer-{number}" for number in range(12)]
Places = dict[str, tuple[str, int]]


async def _send(two: Standing, keys: list[str], limit_s: float) -> tuple[Places, dict[str, Exception]]:
    """Where a client that was just started puts the keys, and what it says of those it could not send."""
    policy = SendPolicy(timeout_s=limit_s)
    async with two.world.client() as client, client.producer(policy=policy) as producer:
        sends = [producer.send("steps", key, order_key=key) for key in keys]
        results = dict(zip(keys, await asyncio.gather(*sends, return_exceptions=True), strict=True))
    places = {
        key: (one.queue.broker_name, one.queue.queue_id)
        for key, one in results.items()
        if not isinstance(one, BaseException)
    }
    return places, {key: one for key, one in results.items() if isinstance(one, Exception)}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Standing]:
    with standing(tmp_path, "broker-a", "broker-b") as stands:
        yield stands


def test_a_key_waits_for_its_broker_and_never_moves_to_another(two: Standing) -> None:
    two.shown("topic", "create", "steps", "--queues", "2", "--order")
    places, failed = two.do(_send(two, KEYS, 10))
    assert {broker for broker, _ in places.values()} == {"broker-a", "broker-b"}
    assert not failed

    async def away() -> tuple[Places, dict[str, Exception], Places]:
        port = int(two.world.brokers["broker-b"].address.rpartition(":")[2])
        await two.world.stop_broker("broker-b")
        meanwhile, failed = await _send(two, KEYS, 0.5)
        waiting = asyncio.ensure_future(_send(two, KEYS, 30))
        await asyncio.sleep(0.3)
        await two.world.start_broker("broker-b", port)
        return meanwhile, failed, (await waiting)[0]

    meanwhile, failed, after = two.do(away())
    assert meanwhile == {key: place for key, place in places.items() if place[0] == "broker-a"}
    assert {type(fault) for fault in failed.values()} == {NoBroker}
    assert after == places
