"""`pyromq bench timer`: Apache's TimerProducer and TimerConsumer in one run, or either: their flags and columns.

So many messages fall due in each of so many slots; what is measured is how late after its time each reaches a handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import click

from ...client.errors import TopicNotFound
from ...client.received import Received  # at the top: the SDK reads the types of handlers
from ...model.group import ConsumeFromWhere
from ...model.wire_text import whole_number
from ..terminal.options import seconds
from ..terminal.tree import command
from .counts import TimersDelivered, TimersSent
from .shared import BenchRun, count_option, interval_option, measures, quantity_option, topic_option

if TYPE_CHECKING:
    from ...client.client import Client

DUE = "MY_RECORD_TIMER_DELIVER_MS"  # Apache's name: each consumer reads the other producer's messages
RUN = "BENCHMARK_RUN"
ROUTE_POLL_S = 0.2  # for a topic that the first send makes


@command(
    "pyromq bench timer -tc 4 -st 10 -mt 100 --first 5",
    "pyromq bench timer --only send -t timers",
    "pyromq bench timer --only consume -t timers",
)
@topic_option
@count_option("-tc", "--thread-count", "threads", default=16, text="Senders.  [16]")
@count_option("-ms", "--message-size", "size", default=1024, text="Bytes.  [1024]")
@count_option("-p", "--precision-ms", "precision", default=1000, text="Of times.  [1000]")
@count_option("-st", "--slots-total", "slots", default=100, text="Slots.  [100]")
@count_option("-mt", "--msgs-total-per-slot-thread", "each", default=5000, text="In each.  [5000]")
@count_option("-sd", "--slot-dis", "distance", default=1000, text="ms between them.  [1000]")
@click.option("--first", type=seconds(or_none=True), default=120.0, help="Seconds until the first slot.  [120]")
@click.option("-g", "--group", default="benchmark_consumer", show_default=True, help="Consumer group.")
@click.option("--only", type=click.Choice(["send", "consume"]), help="One half of it: the other runs elsewhere.")
@quantity_option
@interval_option
@measures
async def timer(run: BenchRun, group: str, only: str | None, **how: Any) -> None:
    """Send messages with delivery times, and measure how late they come. Ends when all have come, or by Ctrl-C.

    -mt counts for each slot and each sender: the defaults are eight million messages. -q ends it sooner, and is
    the only end of --only consume.
    """
    from ...client.produce.outgoing import Packing

    run.shell.say(
        f"topic: {run.topic}, threadCount: {how['threads']}, messageSize: {how['size']}, "
        f"precisionMs: {how['precision']}, slotsTotal: {how['slots']}, msgsTotalPerSlotThread: {how['each']}, "
        f"slotDis: {how['distance']}"
    )
    await run.shell.session.name_servers.topics()  # a consumer would wait for a name server for ever
    async with (
        run.shell.client() as client,
        client.producer("benchmark_producer", packing=Packing(compression=None)) as sender,
        AsyncExitStack() as consuming,
    ):
        timers = TimerRun(run, how, only)  # it counts from here
        await run.until_stopped(
            asyncio.ensure_future(timers.run(sender, client, group, consuming)), timers.counts_in_progress
        )
    timers.conclude()


class TimerRun:
    """One run: what is sent, what came, and when it ends."""

    def __init__(self, run: BenchRun, how: dict[str, Any], only: str | None) -> None:
        self._run, self._how = run, how
        self._clock = run.clock
        self._sends, self._consumes = only != "consume", only != "send"
        self._began_ms = self._clock.now_ms()
        self._mark = f"{self._began_ms}-{run.shell.session.rng.random()}"
        self._sent = TimersSent(self._clock.monotonic())
        self._came = TimersDelivered(self._clock.monotonic())
        self._awaited: int | None = None if self._sends else run.quantity or None  # known when all is sent
        self._all_came = asyncio.Event()

    async def run(self, sender: Any, client: Client, group: str, consuming: AsyncExitStack) -> None:
        tasks = [self._send_all(sender)] if self._sends else []
        if self._consumes:
            tasks.append(self._consume(client, group, consuming))
        await asyncio.gather(*tasks)

    async def _send_all(self, sender: Any) -> None:
        body = b"a" * self._how["size"]
        dues = self._dues()

        async def send() -> None:
            due_ms = next(dues)
            props = {DUE: str(due_ms), RUN: self._mark}
            await sender.send(self._run.topic, body, deliver_at_ms=due_ms, props=props)

        all_of_them = self._how["threads"] * self._how["slots"] * self._how["each"]
        quantity = min(all_of_them, self._run.quantity or all_of_them)
        await self._run.send_all(self._sent, self._how["threads"], send, quantity)
        self._awaited = self._sent.count
        self._end_if_all_came()

    def _dues(self) -> Iterator[int]:
        """Return delivery times in random order, as many for each sender."""
        how = self._how
        first = self._began_ms // how["precision"] * how["precision"] + round(how["first"] * 1000) + 10
        dues = [first + slot * how["distance"] for slot in range(how["slots"]) for _ in range(how["each"])]
        self._run.shell.session.rng.shuffle(dues)
        return chain.from_iterable(repeat(dues, how["threads"]))

    async def _consume(self, client: Client, group: str, consuming: AsyncExitStack) -> None:
        while True:  # a consumer looks for its topic every 20 s only
            try:
                await self._run.shell.session.route(self._run.topic)
                break
            except TopicNotFound:
                await self._clock.sleep(ROUTE_POLL_S)
                if self._awaited == 0:
                    return
        where: dict[str, Any] = {"begin": ConsumeFromWhere.TIMESTAMP, "begin_ms": self._began_ms}
        await consuming.enter_async_context(
            client.push_consumer(self._run.topic, self._handle, group=group, grace_s=1.0, **where)
        )
        await self._all_came.wait()

    async def _handle(self, msg: Received) -> None:
        due = whole_number(msg.properties.get(DUE))
        if due is not None and (not self._sends or msg.properties.get(RUN) == self._mark):
            self._came.got(self._clock.now_ms() - due)
            self._end_if_all_came()

    def _end_if_all_came(self) -> None:
        if self._awaited is not None and self._came.count >= self._awaited:
            self._all_came.set()

    def counts_in_progress(self) -> Iterator[TimersSent | TimersDelivered]:
        if self._sends and self._awaited is None:
            yield self._sent
        if self._consumes:
            yield self._came

    def conclude(self) -> None:
        if self._consumes:
            self._run.print_total(self._came)
        if self._sends:
            self._run.conclude(self._sent)
