"""Requests about old messages: whatever they need from the medium is read in a helper, and never on the loop.

Pulls, which have a way of their own, are in `test_cold_pulls.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.files.real_disk import RealFile
from tests.broker.running import Running, running_broker
from tests.store.cold import Medium

T = TypeVar("T")
PAGE = 256
QUEUE: dict[str, Any] = {"topic": "T", "queueId": 0}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        for number in range(60):
            answer = await running.send(body=b"%d" % number, properties={"KEYS": f"k{number}", "TAGS": "A"})
            assert answer.code == 0
        running.broker.offsets.commit("T", "G", 0, 30)
        yield running


ASKED: list[tuple[int, dict[str, Any]]] = [
    (Code.QUERY_CONSUMER_OFFSET, QUEUE | {"consumerGroup": "New"}),
    (Code.SEARCH_OFFSET_BY_TIMESTAMP, QUEUE | {"timestamp": 1_700_000_000_000}),
    (Code.GET_EARLIEST_MSG_STORETIME, QUEUE),
    (Code.QUERY_MESSAGE, {"topic": "T", "key": "k3", "maxNum": 5, "beginTimestamp": 0, "endTimestamp": 1 << 50}),
    (Code.VIEW_MESSAGE_BY_ID, {"offset": 0}),
    (Code.GET_TOPIC_STATS_INFO, {"topic": "T"}),
    (Code.GET_CONSUME_STATS, {"consumerGroup": "G", "topic": "T"}),
    (Code.GET_BROKER_CONSUME_STATS, {"isOrder": False}),
    (Code.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "G"}),
    (Code.QUERY_CONSUME_QUEUE, QUEUE | {"index": 0, "count": 5}),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "T", "group": "G", "timestamp": 1_700_000_000_000, "isForce": True}),
    (Code.GET_BROKER_RUNTIME_INFO, {}),
]


@pytest.mark.parametrize(("code", "fields"), ASKED, ids=lambda value: getattr(value, "name", ""))
async def test_the_loop_never_waits_for_the_medium(
    broker: Running, monkeypatch: pytest.MonkeyPatch, code: int, fields: dict[str, Any]
) -> None:
    await broker.call(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
    medium = Medium(monkeypatch, RealFile, PAGE)
    monkeypatch.setattr(broker.broker.store._reading, "run_blocking", medium)
    answer = await broker.call(code, **fields)
    assert (answer.code, "internal error" in (answer.remark or "")) == (0, False), answer.remark
    assert medium.fetched > 0
