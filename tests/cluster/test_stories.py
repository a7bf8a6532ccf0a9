"""Delays, timers, transactions and pops over a change of masters: nothing is lost, and nothing comes from two masters.

Each story is told with a master that dies, and with one that stands still and goes on later, when another one leads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from pyromq.client.client import Client
from pyromq.client.errors import Error
from pyromq.client.pop.popped import Popped
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from tests.cluster.cluster import Cluster, run_cluster
from tests.cluster.machines import seconds_of
from tests.cluster.stories import STRIKES, Story

TOPIC = "T"
INVISIBLE_S = 12.0  # longer than any change of masters takes
SETTINGS: dict[str, Any] = {
    "commit_log_file_bytes": 1 << 20,
    "duplicate_window_enable": True,
    "transaction_check_interval": 1500,
    "transaction_time_out": 1000,
    "recall_message_enable": True,
}

over_a_strike = pytest.mark.parametrize("how", STRIKES)


def tell(parts: Callable[[Story, Client], Coroutine[Any, Any, None]]) -> None:
    """Tell a story by parts which a client's process does."""

    async def whole(cluster: Cluster) -> None:
        story = Story(cluster)
        await story.begin()
        await story.process.begin(parts(story, cluster.clients[0].client()))
        await story.end()

    run_cluster(1, whole, **SETTINGS)


async def acked(message: Popped) -> None:
    """Return once it is acknowledged: connections end with a change of masters."""
    for _ in range(20):
        with suppress(Error):
            await message.ack()
            return
        await asyncio.sleep(0.3)
    await message.ack()


@over_a_strike
def test_what_is_delayed_comes_once_and_not_too_early(how: str) -> None:
    async def parts(story: Story, client: Client) -> None:
        due: dict[bytes, float] = {}
        async with client, client.producer() as producer:
            for number in range(12):
                body, delay_s = b"%d" % number, number % 6 * 2 + 1  # before the strike, while nobody leads, and later
                delayed: dict[str, Any] = {"delay_level": 1} if number == 6 else {"delay": delay_s}
                await producer.send(TOPIC, body, **delayed)
                due[body] = story.now + delay_s - 0.1  # it was sent a little earlier
            recalled = await producer.send(TOPIC, b"recalled", delay=11)
            await producer.recall(recalled)
        found = story.read(TOPIC)
        await story.clock.sleep(1.5)
        assert found  # some of them came before
        await story.strike(how)
        await story.until(lambda: due.keys() <= {body for body, _ in found}, "all are delivered")
        assert Counter(body for body, _ in found) == Counter(due.keys())
        assert [body for body, came in found if came < due[body]] == []

    tell(parts)


@over_a_strike
def test_a_transaction_ends_as_its_producer_says_whoever_asks_it(how: str) -> None:
    async def parts(story: Story, client: Client) -> None:
        struck = asyncio.Event()
        wanted = {b"committed", b"asked for, yes", b"committed too late"}

        async with client, client.producer("keepers", policy=SendPolicy(once=True)) as producer:

            @producer.transaction_check(TOPIC)
            async def check(half: Received) -> bool:
                return half.body in wanted

            async def commit_late() -> None:
                async with producer.transaction(TOPIC, b"committed too late") as half:
                    await struck.wait()
                    half.commit()

            async with producer.transaction(TOPIC, b"committed") as half:
                half.commit()
            async with producer.transaction(TOPIC, b"rolled back") as half:
                half.rollback()
            late = asyncio.get_running_loop().create_task(commit_late())
            for body in (b"asked for, yes", b"asked for, no"):
                async with producer.transaction(TOPIC, body) as half:
                    half.leave_open()
            found = story.read(TOPIC)
            await story.strike(how)
            struck.set()
            await asyncio.gather(late, return_exceptions=True)  # its commit may fail: it is asked about then
            await story.until(lambda: wanted <= {body for body, _ in found}, "all that is committed is delivered")
            assert Counter(body for body, _ in found) == Counter(wanted)

    tell(parts)


@over_a_strike
def test_what_was_popped_comes_again_at_its_time_unless_it_was_acknowledged(how: str) -> None:
    async def parts(story: Story, client: Client) -> None:
        async with client, client.producer() as producer:
            for number in range(9):
                await producer.send(TOPIC, b"%d" % number)
            async with client.simple_consumer(TOPIC, group="poppers", begin="first") as consumer:

                async def pop(count: int) -> list[Popped]:
                    popped: list[Popped] = []
                    while len(popped) < count:
                        popped += await consumer.receive(8, 2, invisible=INVISIBLE_S)
                    return popped

                first = await pop(9)
                assert len({message.body for message in first}) == 9
                for message in first[:3]:
                    await message.ack()
                await story.strike(how)
                for message in first[3:6]:  # receipts of the old master's are good at the new one
                    await acked(message)
                again = await pop(3)
                came = story.now
                for message in again:
                    await acked(message)
                assert {message.body for message in again} == {message.body for message in first[6:]}
                assert came >= min(seconds_of(message.receipt.pop_time) for message in first[6:]) + INVISIBLE_S
                assert await consumer.receive(8, INVISIBLE_S + 2, invisible=INVISIBLE_S) == []

    tell(parts)
