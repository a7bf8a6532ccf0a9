"""The clients of a run, a process in the client's host: producers with keys, an orderly group, a log of each event.

    python -m tests.faults.load NAME_SERVER FOLDER PACE

Each key's next send begins PACE seconds after the answer to the one before.
`FOLDER/sends.jsonl` has a line for each send that begins, is acknowledged or fails, `FOLDER/got.jsonl` one for each
message that a consumer got. Times are of the monotonic clock, which all processes of a machine share. A line on stdin
ends the producers; then `FOLDER/stored.jsonl` is written, all that the master has, and the group reads up to there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TextIO

import pyromq
from pyromq.client.produce import producer as producers
from pyromq.client.produce.outgoing import Outgoing
from pyromq.client.produce.sending import Sender, SendResult, SendStatus
from pyromq.errors import PyroError

TOPIC, GROUP = "orders", "readers"
KEYS = 8  # loops that send one after the other; the second half of them by SendPolicy(once=True)
FAILED_PACE_S = 0.12  # before the next send after one that failed
MEMBERS = 2
DRAIN_S = 300.0


class EventLog:
    """Lines of JSON, on their way at once."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", buffering=1, encoding="utf-8")

    def note(self, **event: Any) -> None:
        self._file.write(json.dumps({**event, "at": time.monotonic()}) + "\n")


tries: Counter[str] = Counter()  # attempts by message id


class WatchedSender(Sender):
    """Counts the attempts at each message: one that was tried once must not be there twice."""

    async def _attempt(self, message: Outgoing, *others: Any) -> list[SendResult]:
        tries[message.ids[0]] += 1
        return await super()._attempt(message, *others)


async def send_with_key(
    producer: pyromq.Producer, key: str, pace_s: float, events: EventLog, stop: asyncio.Event
) -> None:
    """Send 1, 2, 3 ... with one key until it is over. What fails is not sent again: its outcome is unknown."""
    number = 0
    while not stop.is_set():
        number += 1
        events.note(event="send", key=key, number=number)
        try:
            result = await producer.send(TOPIC, f"{key}|{number}".encode(), order_key=key)
        except PyroError as fault:
            may_be = getattr(fault, "may_be_stored", True)
            events.note(event="fail", key=key, number=number, may_be_stored=may_be, why=repr(fault)[:300])
            await asyncio.sleep(FAILED_PACE_S)
            continue
        events.note(
            event="ack" if result.status is SendStatus.OK else "stored",
            key=key,
            number=number,
            queue=result.queue.queue_id,
            offset=result.queue_offset,
            position=int(result.offset_message_id[-16:], 16),
            tries=tries.pop(result.message_id),
        )
        await asyncio.sleep(pace_s)


class Readers:
    """An orderly group. `seen` is how far each queue was handled."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self.seen: dict[int, int] = {}

    def handler(self, member: int) -> Any:
        async def handle(message: pyromq.Received) -> None:
            queue, offset = message.queue.queue_id, message.offset
            self._events.note(event="got", member=member, queue=queue, offset=offset, body=message.body.decode())
            self.seen[queue] = max(self.seen.get(queue, -1), offset)

        return handle


async def read_all(name_server: str, out: EventLog) -> dict[int, int]:
    """Write all that the master has now. Return the last offset of each queue."""
    last: dict[int, int] = {}
    async with (
        pyromq.connect(name_server, instance="final") as client,
        client.pull_consumer("final", begin="first", auto_commit=False) as reader,
    ):
        queues = await reader.queues(TOPIC)
        await reader.assign(queues)
        for queue in queues:
            await reader.seek_to_end(queue)
        ends = {queue: reader.position(queue) for queue in queues}
        for queue in queues:
            await reader.seek_to_begin(queue)
        async with asyncio.timeout(DRAIN_S):
            while any(last.get(queue.queue_id, -1) < end - 1 for queue, end in ends.items()):
                for message in await reader.poll(timeout=1):
                    queue_id, offset = message.queue.queue_id, message.offset
                    out.note(event="stored", queue=queue_id, offset=offset, body=message.body.decode())
                    last[queue_id] = max(last.get(queue_id, -1), offset)
    return last


async def send_at_last(producer: pyromq.Producer, body: bytes) -> None:
    """Send until the set takes it. The first one makes the topic. What stands before the last one is confirmed with it,
    also if its own send had given up: nothing more becomes readable then."""
    async with asyncio.timeout(DRAIN_S):
        while True:
            try:
                await producer.send(TOPIC, body)
            except PyroError:
                await asyncio.sleep(0.2)
            else:
                return


async def run(name_server: str, folder: Path, pace_s: float) -> None:
    sends, got = EventLog(folder / "sends.jsonl"), EventLog(folder / "got.jsonl")
    readers, stop = Readers(got), asyncio.Event()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(pyromq.connect(name_server, instance="producers"))
        plain = await stack.enter_async_context(client.producer("plain"))
        once = await stack.enter_async_context(client.producer("once", policy=pyromq.SendPolicy(once=True)))
        await send_at_last(plain, b"first|0")
        for member in range(MEMBERS):
            other = await stack.enter_async_context(pyromq.connect(name_server, instance=f"member-{member}"))
            consumer = other.push_consumer(
                TOPIC, readers.handler(member), group=GROUP, orderly=True, begin="first", commit_s=1.0
            )
            await stack.enter_async_context(consumer)
        print("sending", flush=True)
        async with asyncio.TaskGroup() as tasks:
            for number in range(KEYS):
                how, key = (plain, f"plain-{number}") if number < KEYS // 2 else (once, f"once-{number}")
                tasks.create_task(send_with_key(how, key, pace_s, sends, stop))
            await asyncio.to_thread(sys.stdin.readline)
            stop.set()
        await send_at_last(plain, b"last|0")
        print("reading", flush=True)
        last = await read_all(name_server, EventLog(folder / "stored.jsonl"))
        async with asyncio.timeout(DRAIN_S):
            while any(readers.seen.get(queue, -1) < offset for queue, offset in last.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        print("done", flush=True)


if __name__ == "__main__":
    producers.Sender = WatchedSender  # type: ignore[attr-defined]
    asyncio.run(run(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
