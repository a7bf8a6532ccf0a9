"""A topic with at least so many queues: a backlog is spread over more consumers. Asks brokers; needs no Spark."""

from __future__ import annotations

import asyncio

from ...admin import cluster, topics
from ...admin.calls import Calls
from ...client.client import connect
from ...protocol.bodies.topics import TopicConfig


def widen(name_server: str, topic: str, count: int) -> dict[str, int]:
    """Make the topic, or give it more queues, on every master; never fewer. Return the queues by broker."""
    return asyncio.run(_widen(name_server, topic, count))


async def _widen(name_server: str, topic: str, count: int) -> dict[str, int]:
    found: dict[str, int] = {}
    async with connect(name_server) as client:
        calls = Calls(client.session)
        for place in await cluster.masters(calls):
            known = await topics.config(calls, place.address, topic)
            config = known or TopicConfig(topic_name=topic)
            wanted = max(count, known.write_queue_nums) if known else count
            config.read_queue_nums = config.write_queue_nums = wanted
            await topics.put(calls, place.address, config)
            found[place.name] = wanted
    return found
