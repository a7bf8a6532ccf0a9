"""The count of a day: what our brokers say of it, and what Apache's samples leave."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyromq.admin.calls import Calls
from pyromq.admin.topics import Traffic, into_topic
from pyromq.client.connect.answers import Answer
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from pyromq.protocol.command import Command
from pyromq.protocol.row import AnyRow


class Brokers:
    """Each answers request 315 with what it was given."""

    def __init__(self, **answers: Command) -> None:
        self._answers = answers

    async def ask(self, address: str, row: AnyRow, *_: Any, **__: Any) -> Answer[Any, Any]:
        return Answer(row, self._answers[address], address)


def sampled(minute: int = 0, hour: int = 0, day: int = 0, **fields: str) -> Command:
    data = BrokerStatsData(
        stats_minute=BrokerStatsItem(sum=minute, tps=minute / 60),
        stats_hour=BrokerStatsItem(sum=hour),
        stats_day=BrokerStatsItem(sum=day),
    )
    return Command(code=ResponseCode.SUCCESS, opaque=1, fields=fields, body=encode_body(data))


UNKNOWN = Command(code=ResponseCode.SYSTEM_ERROR, opaque=1, remark="not exist")


@pytest.mark.parametrize(
    ("answer", "traffic"),
    [
        (sampled(sumOfDay="5"), Traffic(0.0, 5)),  # older than a minute, and no point of an hour yet
        (sampled(60, 0, 3, sumOfDay="63"), Traffic(1.0, 63)),
        (sampled(60), Traffic(1.0, 60)),
        (sampled(60, 70), Traffic(1.0, 70)),
        (sampled(60, 70, 80), Traffic(1.0, 80)),
        (UNKNOWN, Traffic(0.0, 0)),
    ],
)
async def test_a_day_is_what_the_broker_counted_or_else_sampled(answer: Command, traffic: Traffic) -> None:
    assert await into_topic(cast(Calls, Brokers(a=answer)), ["a"], "T") == traffic


async def test_brokers_add_up() -> None:
    brokers = cast(Calls, Brokers(ours=sampled(60, sumOfDay="61"), other=sampled(60, 70), none=UNKNOWN))
    assert await into_topic(brokers, ["ours", "other", "none"], "T") == Traffic(2.0, 131)
