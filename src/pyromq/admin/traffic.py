"""How much goes in and out of topics, by group, as brokers count it by minute, hour and day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..protocol.bodies.stats import BrokerStatsData
from .calls import Calls
from .upkeep import counter

PUT, GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages a second in the last minute, and of a day."""

    per_second: float
    of_day: int


async def into_topic(calls: Calls, addresses: Iterable[str], topic: str) -> Traffic:
    """Over all these brokers."""
    return await _counted(calls, addresses, PUT, topic)


async def to_group(calls: Calls, addresses: Iterable[str], topic: str, group: str) -> Traffic:
    return await _counted(calls, addresses, GET, f"{topic}@{group}")


def of_a_day(found: BrokerStatsData) -> int:
    """What was counted in a day; younger counters have only an hour or a minute."""
    return found.stats_day.sum or found.stats_hour.sum or found.stats_minute.sum


async def _counted(calls: Calls, addresses: Iterable[str], name: str, key: str) -> Traffic:
    rate, count = 0.0, 0
    for address in addresses:
        found = await counter(calls, address, name, key)
        if found is not None:
            rate, count = rate + found.stats_minute.tps, count + of_a_day(found)
    return Traffic(rate, count)
