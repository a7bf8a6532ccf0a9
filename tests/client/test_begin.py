"""Where a new group begins, in words: on a clock that the test moves."""

from __future__ import annotations

from datetime import datetime

import pytest

from pyromq.client.errors import Error
from pyromq.client.keywords import Begin
from pyromq.client.received import Received
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient


async def test_a_group_begins_where_the_words_say(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("T", "two hours old")
    await rmq_broker.clock.advance(hours=1, minutes=30)
    middle = datetime.fromtimestamp(rmq_broker.clock.now_ms() / 1000)
    await rmq_client.send("T", "half an hour old")
    await rmq_broker.clock.advance(minutes=30)
    found: dict[str, set[bytes]] = {}
    begins: list[Begin] = ["first", "last", "-1h", "-3h", middle, middle.isoformat(), str(rmq_broker.clock.now_ms())]
    for number, begin in enumerate(begins):

        async def keep(msg: Received, name: str = str(begin)) -> None:
            found.setdefault(name, set()).add(msg.body)

        await rmq_client.client.push_consumer("T", keep, group=f"g{number}", begin=begin).start()
    await rmq_broker.settle()
    both, young = {b"two hours old", b"half an hour old"}, {b"half an hour old"}
    texts = {str(middle): young, middle.isoformat(): young}
    assert found == {"first": both, "-1h": young, "-3h": both} | texts


async def test_a_pull_consumer_takes_the_same_words(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("T", "old")
    await rmq_broker.clock.advance(hours=2)
    await rmq_client.send("T", "new")
    async with rmq_client.client.pull_consumer("etl", begin="-1h") as consumer:
        await consumer.assign(await consumer.queues("T"))
        assert [msg.body for msg in await consumer.poll(timeout=0)] == [b"new"]


async def test_a_time_is_named_once(rmq_client: RmqClient) -> None:
    with pytest.raises(Error, match="begin='-1h' names a time, and so does begin_ms"):
        rmq_client.client.pull_consumer("etl", begin="-1h", begin_ms=5)
