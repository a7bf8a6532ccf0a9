"""An order topic as `pyromq topic create --order` makes it, over two brokers of which one goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.client.errors import Error, NoBroker
from pyromq.client.produce.sending import SendPolicy
from tests.cli.standing import Standing, standing
from tests.client.world import turns_until

KEYS = [f"customer-{number}" for number in range(12)]
Places = dict[str, tuple[str, int]]


async def _send(two: Standing, keys: list[str], limit_s: float, places: Places) -> dict[str, Exception]:
    """Note where a client that was just started puts the keys; return what it says of those it could not send."""
    failed: dict[str, Exception] = {}
    policy = SendPolicy(timeout_s=limit_s)
    async with two.world.client() as client, client.producer(policy=policy) as producer:

        async def send(key: str) -> None:
            try:
                queue = (await producer.send("steps", key, order_key=key)).queue
                places[key] = queue.broker_name, queue.queue_id
            except Error as fault:
                failed[key] = fault

        await asyncio.gather(*map(send, keys))
    return failed


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Standing]:
    with standing(tmp_path, "broker-a", "broker-b") as stands:
        yield stands


def test_a_key_waits_for_its_broker_and_never_moves_to_another(two: Standing) -> None:
    two.shown("topic", "create", "steps", "--queues", "2", "--order")
    places: Places = {}
    failed = two.do(_send(two, KEYS, 10, places))
    assert {broker for broker, _ in places.values()} == {"broker-a", "broker-b"}
    assert not failed

    async def away() -> tuple[Places, dict[str, Exception], Places]:
        port = int(two.world.brokers["broker-b"].address.rpartition(":")[2])
        await two.world.stop_broker("broker-b")
        meanwhile, after = Places(), Places()
        failed = await _send(two, KEYS, 2, meanwhile)
        waiting = asyncio.ensure_future(_send(two, KEYS, 30, after))
        await turns_until(lambda: after == meanwhile)  # the others wait for their broker
        await two.world.start_broker("broker-b", port)
        assert await waiting == {}
        return meanwhile, failed, after

    meanwhile, failed, after = two.do(away())
    assert meanwhile == {key: place for key, place in places.items() if place[0] == "broker-a"}
    assert {type(fault) for fault in failed.values()} == {NoBroker}
    assert after == places
