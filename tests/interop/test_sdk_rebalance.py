"""One group of Java's and Python's consumers, on our broker and on Apache's: each queue has one owner at any time."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

import pyromq

from .peers import java
from .test_sdk_kinds import FIRST, Cluster, Kept, until
from .test_sdk_kinds import cluster as cluster
from .test_sdk_kinds import java_client as java_client

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

QUEUES = 4


class Group:
    """Members of both languages, and what they hold."""

    def __init__(self, cluster: Cluster, client: java.Client, topic: str, *, orderly: bool) -> None:
        self._cluster, self._client, self._topic, self._orderly = cluster, client, topic, orderly
        self.java: dict[str, java.Consuming] = {}
        self.python: dict[str, tuple[AsyncExitStack, pyromq.PushConsumer, Kept]] = {}
        self._left: list[str] = []

    async def java_joins(self, name: str) -> None:
        kind = "orderly" if self._orderly else "push"
        words = (kind, self._cluster.servers, self._topic, f"GID_{self._topic}")
        self.java[name] = await asyncio.to_thread(self._client.consuming, *words)

    async def python_joins(self, name: str) -> None:
        stack, kept = AsyncExitStack(), Kept()
        client = await stack.enter_async_context(pyromq.connect(self._cluster.servers, instance=name))
        options: dict[str, Any] = {"group": f"GID_{self._topic}", "begin": FIRST, "orderly": self._orderly}
        consumer = await stack.enter_async_context(client.push_consumer(self._topic, kept, **options))
        self.python[name] = (stack, consumer, kept)

    async def leaves(self, name: str) -> None:
        if name in self.java:
            consuming = self.java.pop(name)
            await asyncio.to_thread(consuming.stop)
            self._left += consuming.bodies()
        else:
            stack, _, kept = self.python.pop(name)
            await stack.aclose()
            self._left += kept.bodies()

    def owned(self) -> dict[str, set[int]]:
        found = {name: {int(each.rpartition(":")[2]) for each in one.owned()} for name, one in self.java.items()}
        for name, (_, consumer, _) in self.python.items():
            found[name] = {queue.queue_id for queue in tuple(consumer.assigned) if queue.topic == self._topic}
        return found

    def is_shared_out(self) -> bool:
        """Each queue once, and nobody has two more than another."""
        shares = list(self.owned().values())
        owners = Counter(queue for share in shares for queue in share)
        sizes = [len(share) for share in shares]
        return owners == Counter(range(QUEUES)) and max(sizes) - min(sizes) <= 1

    def bodies(self) -> list[str]:
        java_s = [body for one in self.java.values() for body in one.bodies()]
        return self._left + java_s + [body for _, _, kept in self.python.values() for body in kept.bodies()]

    async def close(self) -> None:
        for name in (*self.java, *self.python):
            await self.leaves(name)


STEPS = [
    ("java_joins", "j1"),
    ("python_joins", "p1"),
    ("python_joins", "p2"),
    ("leaves", "j1"),
    ("java_joins", "j2"),
    ("leaves", "p1"),
]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_each_queue_has_one_owner_as_members_of_both_languages_come_and_go(
    orderly: bool, cluster: Cluster, java_client: java.Client
) -> None:
    topic = cluster.new_topic()
    group = Group(cluster, java_client, topic, orderly=orderly)
    sent: set[str] = set()

    def all_arrived() -> bool:
        return sent <= set(group.bodies())

    async with pyromq.connect(cluster.servers, instance="sender") as client, client.producer() as producer:
        try:
            for number, (step, name) in enumerate(STEPS):
                await getattr(group, step)(name)
                await until(group.is_shared_out, f"after {step} {name}: {group.owned()}")
                bodies = [f"{number}:{each}" for each in range(20)]
                for body in bodies:
                    await producer.send(topic, body)
                sent.update(bodies)
                await until(all_arrived, f"all arrived after {step} {name}")
                assert group.is_shared_out(), group.owned()
        finally:
            await group.close()
    assert set(group.bodies()) == sent
