"""A broker and a name server that are away for a while: one line at the beginning, one at the end. Real sockets."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.connect.outages import Outages
from pyromq.errors import CallTimedOut
from pyromq.testing.clock import ManualClock
from tests.client.test_push_consumer import FIRST, Seen, send
from tests.client.world import Servers, turns_until

BEGAN, ENDED = "a broker does not answer", "a server that was away answers again"


def warnings(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [each for each in caplog.records if each.name == "pyromq.client" and each.levelno >= logging.WARNING]


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.event, each.fields.get("address", "")) for each in warnings(caplog)]


def unanswered(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """All calls that a name server did not answer, those of level debug too."""
    return [each for each in caplog.records if getattr(each, "event", "") == "a name server does not answer"]


def failed_pulls(caplog: pytest.LogCaptureFixture, queues: int) -> list[int]:
    """How often each group could not pull each queue of T; zeros for those of `queues` that never failed."""
    failed: list[Any] = [each for each in caplog.records if getattr(each, "event", "") == "pull failed"]
    found = [(each.fields["group"], each.fields["queue"]) for each in failed]
    counts = Counter(each for each in found if "RETRY" not in each[1])
    return [*counts.values()] + [0] * (queues - len(counts))


@pytest.mark.fresh_broker
async def test_a_broker_that_restarts_is_one_line_at_its_end_and_one_when_it_is_back(
    world: Servers, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await world.create_topic("T", 8)
    await send(world, 8)
    caplog.set_level(logging.DEBUG, "pyromq.client")
    ones, others, ordered = Seen(), Seen(), Seen()
    options: dict[str, Any] = {"begin": FIRST, "commit_s": 0.2}
    async with (
        world.client() as client,
        client.push_consumer("T", ones, group="g1", **options),
        client.push_consumer("T", others, group="g2", **options),
        client.push_consumer("T", ordered, group="g3", orderly=True, **options),
        client.pull_consumer("g4", begin=FIRST) as puller,
    ):
        await puller.assign(await puller.queues("T"))
        polling = asyncio.create_task(puller.poll(timeout=60))
        for seen in (ones, others, ordered):
            await seen.count(8)
        assert warnings(caplog) == []
        address = world.brokers["broker-a"].address
        await world.stop_broker()
        await turns_until(lambda: all(count > 1 for count in failed_pulls(caplog, 24)))
        assert told(caplog) == [(BEGAN, address)]
        assert len(str(warnings(caplog)[0].getMessage())) < 200
        await world.start_broker("broker-a", int(address.rpartition(":")[2]))
        await send(world, 8, start=8)
        for seen in (ones, others, ordered):
            await seen.count(16)
        await polling
    assert told(caplog) == [(BEGAN, address), (ENDED, address)]
    assert warnings(caplog)[1].fields["away_s"] > 0
    assert any(getattr(each, "event", "") == "pull failed" for each in caplog.records)  # at level debug


@pytest.mark.fresh_broker
async def test_each_name_server_has_its_own_lines_though_another_answers(
    empty_world: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    world = empty_world
    for _ in range(2):
        await world.start_name_server()
    await world.start_broker()
    await world.create_topic("T", 1)
    seen = Seen()
    caplog.set_level(logging.DEBUG, "pyromq.client")
    async with world.client(route_refresh_s=0.1) as client, client.push_consumer("T", seen, group="g", begin=FIRST):
        for _ in range(2):
            caplog.clear()
            address = client.session.name_servers._addresses[0]  # the other one is not asked while this one answers
            await world.stop_name_server(address)
            await turns_until(lambda: bool(told(caplog)))
            assert told(caplog) == [("a name server does not answer", address)]
            await turns_until(lambda: len(unanswered(caplog)) > 3)  # more calls have noticed it, and say nothing
            assert len(told(caplog)) == 1
            await world.start_name_server(int(address.rpartition(":")[2]))
            await turns_until(lambda: len(told(caplog)) > 1)
            assert told(caplog)[1:] == [(ENDED, address)]


async def test_a_server_that_answers_only_some_calls_has_a_pair_of_lines_in_5_s(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    outages = Outages(clock, lambda: True)
    for _ in range(100):
        outages.failed("broker", "b:1", CallTimedOut("no answer"))
        outages.answered("b:1")
    assert told(caplog) == [(BEGAN, "b:1"), (ENDED, "b:1")]
    await clock.advance(6)
    outages.failed("broker", "b:1", CallTimedOut("no answer"))
    assert warnings(caplog)[2].fields["held_back"] == 99


async def test_a_client_that_asks_once_has_its_error_and_no_line(
    world: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.client(name_servers=("127.0.0.1:1",)) as client:
        with pytest.raises(Exception, match="no name server answers"):
            await client.session.route("T")
    assert warnings(caplog) == []
