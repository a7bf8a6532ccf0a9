"""What jobs ask of brokers before Spark is started: which topics lose messages soon (an archive takes them first), and
more queues for a topic, so that a backlog is spread over more consumers.

A broker removes whole log files that are older than `fileReservedTime` (hours), so a topic's oldest message goes about
that long after it was stored. Offsets and times are asked of masters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...admin import cluster, offsets, settings, topics
from ...admin.calls import Calls
from ...client.client import Client
from ...model.names import DLQ_PREFIX, is_retry, is_system_topic
from ...model.wire_text import whole_number
from ...protocol.bodies.topics import TopicConfig
from ...spark.connect.cluster import client_config
from ...spark.options import NetOptions

_HOUR_MS = 3_600_000


class ExpiringTopic(NamedTuple):
    """`left_ms` until its oldest message may go; below 0 it is overdue."""

    topic: str
    broker: str
    oldest_ms: int
    left_ms: int


def soon(found: Iterable[ExpiringTopic], within_ms: int, *, dead_letters: bool) -> list[ExpiringTopic]:
    """Return the topics that lose messages within the time, and all dead letters if wanted; the most urgent first."""
    chosen = [
        each for each in found if each.left_ms <= within_ms or (dead_letters and each.topic.startswith(DLQ_PREFIX))
    ]
    return sorted(chosen, key=lambda each: (each.left_ms, each.topic, each.broker))


def names(found: Iterable[ExpiringTopic]) -> list[str]:
    return list(dict.fromkeys(each.topic for each in found))


def rows(found: Iterable[ExpiringTopic]) -> list[dict[str, Any]]:
    return [
        {"topic": each.topic, "broker": each.broker, "hours left": round(each.left_ms / _HOUR_MS, 1)} for each in found
    ]


def ages(net: NetOptions, now_ms: int) -> list[ExpiringTopic]:
    """Return every topic that holds something, RocketMQ's own and retries left out."""
    return asyncio.run(_ages(net, now_ms))


async def _ages(net: NetOptions, now_ms: int) -> list[ExpiringTopic]:
    found: list[ExpiringTopic] = []
    async with Client(client_config(net)) as client:
        calls = Calls(client.session)
        for place in await cluster.masters(calls):
            hours = whole_number((await settings.of_broker(calls, place.address)).get("fileReservedTime"))
            reserved_ms = (72 if hours is None else hours) * _HOUR_MS
            for name, config in (await topics.configs(calls, place.address)).items():
                if is_system_topic(name) or is_retry(name):
                    continue
                asked = (
                    offsets.earliest_time(calls, place.address, name, queue_id)
                    for queue_id in range(config.read_queue_nums)
                )
                oldest = min((time for time in await asyncio.gather(*asked) if time > 0), default=0)
                if oldest:
                    found.append(ExpiringTopic(name, place.name, oldest, oldest + reserved_ms - now_ms))
    return found


def widen(net: NetOptions, topic: str, count: int) -> dict[str, int]:
    """Make the topic, or give it more queues, on every master; never fewer. Return the queues by broker."""
    return asyncio.run(_widen(net, topic, count))


async def _widen(net: NetOptions, topic: str, count: int) -> dict[str, int]:
    found: dict[str, int] = {}
    async with Client(client_config(net)) as client:
        calls = Calls(client.session)
        for place in await cluster.masters(calls):
            known = await topics.config(calls, place.address, topic)
            config = known or TopicConfig(topic_name=topic)
            wanted = max(count, known.write_queue_nums) if known else count
            config.read_queue_nums = config.write_queue_nums = wanted
            await topics.put(calls, place.address, config)
            found[place.name] = wanted
    return found
