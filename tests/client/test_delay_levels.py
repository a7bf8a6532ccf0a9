"""Delay levels of a broker with a table of its own, on a clock that the test moves."""

from __future__ import annotations

import pytest

from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient


@pytest.mark.rmq(message_delay_level="7s 10m")
async def test_a_send_names_an_entry_of_the_brokers_table(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("T", "soon", delay_level=1)
    await rmq_client.send("T", "far", delay_level=2)
    await rmq_broker.clock.advance(6.5)
    await rmq_client.expect_nothing("T")
    await rmq_broker.clock.advance(1)
    found = await rmq_client.receive_one("T")
    assert (found.body, found.delay_level) == (b"soon", 1)
    await rmq_broker.clock.advance(600)
    assert (await rmq_client.receive_one("T")).delay_level == 2
    await rmq_client.send("T", "at once")
    assert (await rmq_client.receive_one("T")).delay_level == 0
