"""The SDK's part of bench/client.py: NAMESRV SECONDS FILLED. One line of JSON at the end."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyromq
from pyromq.transport import loop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench.measure.latency import latency

TOPIC = "ClientBench"
BODY = b"x" * 1024
IN_FLIGHT = 64
GATHERED_IN_FLIGHT = 1024
MANY = 10_000  # values of one send_many
FIRST = pyromq.ConsumeFromWhere.FIRST_OFFSET


async def measured(address: str, seconds: float, filled: int) -> dict[str, float]:
    async with pyromq.connect(address) as client, client.producer() as producer:
        await one_by_one(producer, min(seconds, 1.0))
        found = await one_by_one(producer, seconds)
        found |= await workers("send", lambda: producer.send(TOPIC, BODY), seconds, IN_FLIGHT)
        async with client.producer("gathering", batching=pyromq.Batching(linger_s=0.001)) as gathering:
            found |= await workers("gathered", lambda: gathering.send(TOPIC, BODY), seconds, GATHERED_IN_FLIGHT)
        found |= await workers("many", lambda: producer.send_many(TOPIC, [BODY] * MANY), seconds, 1, MANY)
        found |= await reads(client, f"{TOPIC}Read", filled)
        # The last: what one-way sends leave in buffers delays what follows.
        return found | await workers("oneway", lambda: producer.send_oneway(TOPIC, BODY), seconds, 1)


async def one_by_one(producer: Any, seconds: float) -> dict[str, float]:
    took: list[float] = []
    cpu, now = time.process_time(), time.perf_counter()
    until = now + seconds
    while now < until:
        await producer.send(TOPIC, BODY)
        end = time.perf_counter()
        took.append(end - now)
        now = end
    return latency(took, time.process_time() - cpu)


async def workers(
    name: str, send: Callable[[], Awaitable[Any]], seconds: float, in_flight: int, step: int = 1
) -> dict[str, float]:
    count = 0
    cpu, began = time.process_time(), time.perf_counter()
    until = began + seconds

    async def work() -> None:
        nonlocal count
        while time.perf_counter() < until:
            await send()
            count += step

    await asyncio.gather(*(work() for _ in range(in_flight)))
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return {f"{name}_s": count / took, f"{name}_cpu_us": used / count * 1e6}


class Seen:
    """Counts messages; the clock starts with the first one."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.count, self.began, self.cpu = wanted, 0, 0.0, 0.0
        self.enough = asyncio.Event()

    def add(self, count: int) -> None:
        if not self.count:
            self.began, self.cpu = time.perf_counter(), time.process_time()
        self.count += count
        if self.count >= self.wanted:
            self.enough.set()

    def figures(self, name: str) -> dict[str, float]:
        took, used = time.perf_counter() - self.began, time.process_time() - self.cpu
        return {f"{name}_s": self.count / took, f"{name}_cpu_us": used / self.count * 1e6}


async def reads(client: Any, topic: str, filled: int) -> dict[str, float]:
    found: dict[str, float] = {}
    one, batch, polled, looped = (Seen(filled) for _ in range(4))

    async def handle(msg: pyromq.Received) -> None:
        one.add(1)

    async def handle_batch(msgs: list[pyromq.Received]) -> None:
        batch.add(len(msgs))

    async with client.push_consumer(topic, handle, group=new_group(), begin=FIRST):
        await one.enough.wait()
        found |= one.figures("read")
    async with client.push_consumer(topic, handle_batch, group=new_group(), begin=FIRST, max_batch=32):
        await batch.enough.wait()
        found |= batch.figures("read_batch")
    async with client.pull_consumer(new_group(), begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues(topic))
        while not polled.enough.is_set():
            polled.add(len(await consumer.poll()))
        found |= polled.figures("poll")
    async with client.pull_consumer(new_group(), begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues(topic))
        async for _ in consumer:
            looped.add(1)
            if looped.enough.is_set():
                break
        found |= looped.figures("loop")
    return found


def new_group() -> str:
    return f"bench{time.time_ns()}"


def main() -> None:
    address, seconds, filled = sys.argv[1:]
    print("@@" + json.dumps(loop.run(measured(address, float(seconds), int(filled)))), flush=True)


if __name__ == "__main__":
    main()
