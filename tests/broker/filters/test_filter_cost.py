"""What a filter may cost: a look ends when its time is over; the pull is answered with what it has, then goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.filters.filters import parsed
from pyromq.broker.reading.filtered_read import Search, find_matches
from pyromq.model.codes import ResponseCode
from pyromq.model.filters.parser import MAX_CONTAINS
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from pyromq.protocol.requests import RequestCode
from pyromq.store.log.reader import GetStatus
from tests.broker.running import Running, running_broker
from tests.loop_held import held_loop
from tests.wire import decode_messages

COUNT = 30
LONG = "a" * 29_000
NEEDLES = [f"a CONTAINS '{'a' * 20}b{number}'" for number in range(MAX_CONTAINS - 1)]
COSTLY = " OR ".join([*NEEDLES, "n = '7'", "n = '29'"])
BROUGHT: dict[str, Any] = {"expressionType": "SQL92"}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path / "store", enable_property_filter=True) as running:
        for number in range(COUNT):
            answer = await running.send(body=str(number).encode(), properties={"n": str(number), "a": LONG})
            assert answer.code == ResponseCode.SUCCESS
        yield running


def search(offset: int = 0) -> Search:
    return Search("T", 0, offset, 32, 1 << 20)


class Stopwatch:
    """Time that goes on by `step` seconds with each look at it."""

    def __init__(self, step: float) -> None:
        self._now, self._step = 0.0, step

    def __call__(self) -> float:
        self._now += self._step
        return self._now


async def test_a_look_ends_when_its_time_is_over(broker: Running) -> None:
    reader, record_filter = broker.broker.store.reader, parsed("SQL92", COSTLY)
    seen, offset, looks = [], 0, 0
    while offset < COUNT:
        found = find_matches(reader, search(offset), record_filter, Stopwatch(0.001)).selection
        seen += [one.queue_offset for one in found.ranges]
        assert found.status is (GetStatus.FOUND if found.ranges else GetStatus.NO_MATCHED_MESSAGE)
        assert 0 < found.next_offset - offset <= 2
        offset, looks = found.next_offset, looks + 1
    assert seen == [7, 29]
    assert looks >= COUNT / 2


async def test_one_record_is_looked_at_however_late_it_is(broker: Running) -> None:
    record_filter = parsed("SQL92", COSTLY)
    found = find_matches(broker.broker.store.reader, search(7), record_filter, Stopwatch(60)).selection
    assert ([one.queue_offset for one in found.ranges], found.next_offset) == ([7], 8)


async def test_a_light_expression_asks_for_no_time(broker: Running) -> None:
    """Of few bytes: the clock is read once for the look and once for each step."""
    for number in range(200):
        await broker.send(topic="U", body=b"x", properties={"n": str(number)})
    watch = Stopwatch(0.000_1)
    found = find_matches(broker.broker.store.reader, Search("U", 0, 0, 300, 1 << 20), parsed("SQL92", "n > 100"), watch)
    assert len(found.selection.ranges) == 99
    assert watch() < 0.000_8


async def test_a_pull_with_a_costly_filter_holds_the_loop_for_milliseconds(broker: Running) -> None:
    """30 such records took 0.4 s in one go, and 1,000 CONTAINS 4.6 s. All matches are found all the same."""
    found, offset, longest = [], 0, []
    with held_loop() as held:
        while offset < COUNT:
            held.begin()
            answer = await broker.pull(offset=offset, tags=COSTLY, **BROUGHT)
            longest.append(held.longest_ms)
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
            found += [int(message.body) for message in decode_messages(bytes(answer.body))]
            assert int(answer.fields["nextBeginOffset"]) > offset
            offset = int(answer.fields["nextBeginOffset"])
    assert found == [7, 29]
    assert sorted(longest)[len(longest) // 2] < 60  # one record takes about 12


async def test_too_many_contains_are_refused_with_the_code_that_clients_know(broker: Running) -> None:
    answer = await broker.pull(tags=" OR ".join(["a CONTAINS 'x'"] * 1_000), **BROUGHT)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "more than 100 times CONTAINS in one expression" in (answer.remark or "")


async def test_entries_that_are_looked_at_with_a_costly_filter_are_looked_at_in_slices(broker: Running) -> None:
    wanted = SubscriptionData(topic="T", sub_string=COSTLY, sub_version=1, expression_type="SQL92")
    data = ConsumerData(group_name="G", subscription_data_set=[wanted])
    await broker.call(RequestCode.HEART_BEAT, encode_body(HeartbeatData(client_id="c", consumer_data_set=[data])))
    with held_loop() as held:
        answer = await broker.call(
            RequestCode.QUERY_CONSUME_QUEUE, topic="T", queueId=0, index=0, count=COUNT, consumerGroup="G"
        )
    assert bytes(answer.body).count(b'"eval":true') == 2
    assert held.share < 0.4


async def test_a_heartbeat_with_long_expressions_is_served_in_slices(broker: Running) -> None:
    """Good ones and bad ones: each takes up to 10 ms to compile, or to find the fault at its end."""
    test = " OR ".join(f"p{number} = 1" for number in range(500))
    wanted = [
        SubscriptionData(topic=f"T{number}", sub_string=f"q{number} = 1 OR {test} {end}", expression_type="SQL92")
        for number, end in enumerate(["", "!"] * 15)
    ]
    data = ConsumerData(group_name="G", subscription_data_set=wanted)
    body = encode_body(HeartbeatData(client_id="c", consumer_data_set=[data]))
    with held_loop() as held:
        answer = await broker.call(RequestCode.HEART_BEAT, body)
    assert answer.code == ResponseCode.SUCCESS
    assert held.share < 0.4
    assert broker.broker.clients.filters.find("T0", "G") is not None
    assert broker.broker.clients.filters.find("T1", "G") is None
