"""Three whole brokers, two name servers and clients of the SDK on virtual time, under one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pyromq.client.client import Client
from pyromq.errors import PyroError
from tests.cluster.cluster import Cluster, run_cluster

TOPIC = "orders"


async def send_on(client: Client, acked: dict[bytes, float], now: Callable[[], float]) -> None:
    """Send one message after the other; note when which one was acknowledged."""
    async with client, client.producer() as producer:
        for number in range(1 << 30):
            body = b"%d" % number
            try:
                await producer.send(TOPIC, body)
            except PyroError:
                continue  # its outcome is unknown
            acked[body] = now()
            await asyncio.sleep(0.02)


async def read_on(client: Client, found: set[bytes]) -> None:
    async with client, client.pull_consumer("reader", begin="first") as consumer:
        await consumer.assign(await consumer.queues(TOPIC))
        while True:
            found |= {message.body for message in await consumer.poll(timeout=1)}


async def fail_over(cluster: Cluster, strike: Callable[[Cluster], Awaitable[None]]) -> float:
    """Return how long nobody acknowledged, when this happens to a set under load. All that was acknowledged is read."""
    acked: dict[bytes, float] = {}
    cluster.start()
    one, other = cluster.clients
    sending = one.process.begin(send_on(one.client(), acked, cluster.clock.monotonic))
    await cluster.until(lambda: cluster.is_whole and len(acked) > 20, 20, "the set is whole and takes sends")
    before = cluster.recorded()
    await strike(cluster)
    struck = cluster.clock.monotonic()
    count = len(acked)
    await cluster.until(lambda: len(acked) >= count + 20, 30, "sends are taken again")
    after = cluster.recorded()
    assert before is not None
    assert after is not None
    assert (after.epoch, after.master) != (before.epoch, before.master)
    sending.cancel()
    found: set[bytes] = set()
    other.process.begin(read_on(other.client(), found))
    await cluster.until(lambda: found >= acked.keys(), 30, "all that was acknowledged is read")
    for machine in cluster.brokers:
        if not machine.is_up:
            machine.start()
    await cluster.until(lambda: cluster.is_whole, 30, "who was away is in the set again")
    return next(moment for moment in acked.values() if moment > struck + 0.01) - struck


async def kill_the_master(cluster: Cluster) -> None:
    master = cluster.master()
    assert master is not None
    master.kill()


def test_another_master_takes_sends_after_a_kill_and_nothing_is_lost() -> None:
    away_s = run_cluster(1, lambda cluster: fail_over(cluster, kill_the_master))
    assert away_s < 3.0  # of virtual time: no lease is waited for
