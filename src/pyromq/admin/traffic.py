"""How much goes in and out of topics, by group, as brokers count it by minute, hour and day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model.codes import ResponseCode
from ..protocol.bodies.stats import BrokerStatsData
from ..protocol.headers.admin import ViewBrokerStatsData
from ..protocol.requests import RequestCode
from .calls import Calls

PUT, GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages a second in the last minute, and of a day."""

    per_second: float
    of_day: int


async def into_topic(calls: Calls, addresses: Iterable[str], topic: str) -> Traffic:
    """Return the sum of what these brokers counted."""
    return await _counted(calls, addresses, PUT, topic)


async def to_group(calls: Calls, addresses: Iterable[str], topic: str, group: str) -> Traffic:
    return await _counted(calls, addresses, GET, f"{topic}@{group}")


async def _counted(calls: Calls, addresses: Iterable[str], name: str, key: str) -> Traffic:
    missing = ResponseCode.SYSTEM_ERROR  # Java's answer to a counter that is not there
    header = ViewBrokerStatsData(stats_name=name, stats_key=key)
    total = Traffic(0.0, 0)
    for address in addresses:
        answer = await calls.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header, known=[missing])
        if answer.code != missing:
            data, of_day = answer.body, answer.header.sum_of_day
            day = _sampled_day(data) if of_day is None else of_day
            total = Traffic(total.per_second + data.stats_minute.tps, total.of_day + day)
    return total


def _sampled_day(data: BrokerStatsData) -> int:
    """Return the sum of Apache's samples; young counters have only an hour's or a minute's."""
    return data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum
